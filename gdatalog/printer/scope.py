"""What is known at a point of a printed function: names of values, nodes, lists and weights."""

from __future__ import annotations

from gdatalog.plan.nest import Recoding, TrieNode
from gdatalog.plan.nodes import RangeBound
from gdatalog.records import dataclass, field, replace

Range = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Buffer:
    """An intersection that has been computed: its array and range, and the cuts applied."""

    array: str
    end: str
    cuts: tuple[RangeBound, ...]
    variable: str  # the variable whose level computed it
    marks: tuple[str, str] | None = None  # its marks, and the value that they start from
    low: str = "0"


@dataclass(frozen=True, slots=True)
class LoopPosition:
    """The current position of a variable's loop, in the list of a node or in a buffer."""

    array: str
    node: TrieNode | None
    at: str


@dataclass(frozen=True, slots=True)
class Clip:
    """The part of a list that belongs to the current task; units are counted from `base`."""

    node: TrieNode
    low: str
    high: str
    base: str


@dataclass(frozen=True, slots=True)
class Constraint:
    """A constraint on the bits of a recoded level: a `row` of a trie, or a cut (its operator)."""

    kind: str
    trie: int
    variable: str


@dataclass(frozen=True, slots=True)
class BitsetWords:
    """A set of positions: an array, and where its words start.

    `others`: sets to intersect with it, where a lane has no room for the intersection. `after`: a
    position that precedes the whole set, if one is known.
    """

    array: str
    start: str
    others: tuple[BitsetWords, ...] = ()
    after: str | None = None

    @property
    def first_word(self) -> str:
        """The first word that may contain a position."""
        return "0" if self.after is None else f"({self.after} >> 6)"

    @property
    def all(self) -> tuple[BitsetWords, ...]:
        return (self, *self.others)


@dataclass(slots=True)
class RecodedList:
    """A recoded list in scope: its range, the number of words of a row, and rows by trie."""

    recoding: Recoding
    values: str
    low: str
    high: str
    words: str
    rows: dict[int, str]
    rowed: frozenset[TrieNode]  # nodes that rows replace
    positions: dict[str, str] = field(default_factory=dict)  # positions of variables
    sets: dict[frozenset[Constraint], BitsetWords] = field(default_factory=dict)

    def inner(self) -> RecodedList:
        return replace(self, positions=dict(self.positions), sets=dict(self.sets))


@dataclass(slots=True)
class KnownPositions:
    """What is known at a point of the function.

    `positions`: a node's index in the level above its children. `ranges`: ranges of nodes' lists.
    `found`: the flag of the branch that a match ends.
    """

    names: dict[str, str] = field(default_factory=dict)
    positions: dict[TrieNode, str] = field(default_factory=dict)
    ranges: dict[TrieNode, Range] = field(default_factory=dict)
    buffers: dict[frozenset[TrieNode], Buffer] = field(default_factory=dict)
    marks: dict[TrieNode, str] = field(default_factory=dict)  # flag: the list is marked
    members: dict[str, frozenset[TrieNode]] = field(
        default_factory=dict
    )  # lists that contain a variable's value
    turns: dict[str, LoopPosition] = field(default_factory=dict)
    weights: list[str] = field(default_factory=list)
    clip: Clip | None = None
    group: RecodedList | None = None
    found: str | None = None
    alone: bool = False  # the lanes of a tile have diverged
    unit: str | None = None  # the current unit of work, if the next loop may share its turns
    spread: bool = False  # diverged lanes share the turns of the next loop
    first_task: str | None = None  # 0 in tasks that are not the first of the current value

    def inner(self) -> KnownPositions:
        """A copy for an inner scope."""
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


@dataclass(frozen=True, slots=True)
class KeptIntersection:
    """The lists of a level whose intersection is cached, and the edge between their ends."""

    nodes: frozenset[TrieNode]
    edge: TrieNode
    number: int


@dataclass(frozen=True, slots=True)
class CountTable:
    """The local names of a table: counts, values, number of values, and the least possible key."""

    counts: str
    values: str
    length: str
    low: str
