"""What is known at a place of a printed function: names of values, nodes, lists and weights."""

from __future__ import annotations

from gdatalog.plan.nest import Recoding, TrieNode
from gdatalog.plan.nodes import RangeBound
from gdatalog.records import dataclass, field, replace

Range = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Buffer:
    """An intersection of lists that has been made: its array, from where to where, what was cut."""

    array: str
    end: str
    cuts: tuple[RangeBound, ...]
    variable: str  # whose level made it
    marks: tuple[str, str] | None = None  # with the value that they start from, if it is marked
    low: str = "0"


@dataclass(frozen=True, slots=True)
class LoopPosition:
    """Where the loop of a variable is: in an array, in the list of a node or in a buffer."""

    array: str
    node: TrieNode | None
    at: str


@dataclass(frozen=True, slots=True)
class Clip:
    """The part of a list that the task at hand is about; `base` is where tasks count from."""

    node: TrieNode
    low: str
    high: str
    base: str


@dataclass(frozen=True, slots=True)
class Constraint:
    """What a bit of a recoded level must pass: a `row` of a trie, or a cut by an operator."""

    kind: str
    trie: int
    variable: str


@dataclass(frozen=True, slots=True)
class BitsetWords:
    """A set of positions: where its words start in an array.

    `others`: sets that a position must be in as well, where a lane has no room for what all have in
    common. `after`: a position behind which all of the set lies, if one is known.
    """

    array: str
    start: str
    others: tuple[BitsetWords, ...] = ()
    after: str | None = None

    @property
    def first_word(self) -> str:
        """The first word that may hold a position."""
        return "0" if self.after is None else f"({self.after} >> 6)"

    @property
    def all(self) -> tuple[BitsetWords, ...]:
        return (self, *self.others)


@dataclass(slots=True)
class RecodedList:
    """A recoded list at hand: its range, how many words a row has, rows by trie."""

    recoding: Recoding
    values: str
    low: str
    high: str
    words: str
    rows: dict[int, str]
    rowed: frozenset[TrieNode]  # nodes that rows stand for
    positions: dict[str, str] = field(default_factory=dict)  # of the levels' variables
    sets: dict[frozenset[Constraint], BitsetWords] = field(default_factory=dict)

    def inner(self) -> RecodedList:
        return replace(self, positions=dict(self.positions), sets=dict(self.sets))


@dataclass(slots=True)
class KnownPositions:
    """`positions`: where a node's entry stands in the level above its children.

    `ranges` are those of known nodes' lists. `found` is the flag of the branch that a match ends.
    """

    names: dict[str, str] = field(default_factory=dict)
    positions: dict[TrieNode, str] = field(default_factory=dict)
    ranges: dict[TrieNode, Range] = field(default_factory=dict)
    buffers: dict[frozenset[TrieNode], Buffer] = field(default_factory=dict)
    marks: dict[TrieNode, str] = field(default_factory=dict)  # the flag whether it has been marked
    members: dict[str, frozenset[TrieNode]] = field(default_factory=dict)  # lists a variable is in
    turns: dict[str, LoopPosition] = field(default_factory=dict)
    weights: list[str] = field(default_factory=list)
    clip: Clip | None = None
    group: RecodedList | None = None
    found: str | None = None
    alone: bool = False  # of a tile's lanes, each goes its own way here
    unit: str | None = None  # the unit of work at hand, if the next loop may share its turns
    spread: bool = False  # lanes that are on their own here share the turns of the next loop
    first_task: str | None = None  # is 0 in tasks that are not the first of the value at hand

    def inner(self) -> KnownPositions:
        """A copy for a scope inside: what it learns is forgotten behind it."""
        return KnownPositions(
            dict(self.names),
            dict(self.positions),
            dict(self.ranges),
            dict(self.buffers),
            dict(self.marks),
            dict(self.members),
            dict(self.turns),
            list(self.weights),
            self.clip,
            self.group.inner() if self.group else None,
            self.found,
            self.alone,
            self.unit,
            self.spread,
            self.first_task,
        )

    def has(self, node: TrieNode) -> bool:
        """Whether a node's list is known here."""
        return not node.terms or node in self.positions
