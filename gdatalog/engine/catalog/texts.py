"""The texts that a database keeps, in order, and the statements of them that the checks read.

Users add facts one by one, and checking all earlier facts each time would take quadratic time. So
the checks read only the first fact of each shape (relation and argument types): the others add
nothing. Adding a text does not copy the others: `ProgramTexts` is a prefix of lists that only
grow.
"""

from __future__ import annotations

from _thread import LockType
from bisect import bisect_left
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from itertools import chain
from operator import is_
from threading import Lock

from gdatalog import cancellation
from gdatalog.cancellation import OBJECT, cancellable
from gdatalog.engine.catalog.fact_list import (
    NO_FACTS,
    FactList,
    Piece,
    keys_of,
    number_of,
    pieces_of,
)
from gdatalog.engine.catalog.folders import Folders
from gdatalog.parser.fact_statements import examples
from gdatalog.parser.syntax import Atom, Facts, Query, Retract, Rule, Statement
from gdatalog.planner.check.statements import (
    Part,
    Shape,
    is_fact,
    names_of,
    reads_of,
    shapes_of,
    without,
    without_facts,
    without_inputs,
)
from gdatalog.planner.check.walk import Node
from gdatalog.records import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class Outline:
    """The `statements` of a text that the checks read: all except facts of an earlier fact's
    shape."""

    statements: tuple[Statement, ...]
    facts: Mapping[str, Sequence[Piece]]  # all facts, by relation
    shapes: Mapping[tuple[str, Shape], None]
    plain: bool  # whether the text has only facts

    @staticmethod
    def of(text: Sequence[Statement]) -> Outline:
        looked_at = len(text) * 32 * OBJECT
        if looked_at < cancellation.LATE:
            return Outline._of(text)
        return cancellable(looked_at, lambda: Outline._of(text), None)

    @staticmethod
    def _of(text: Sequence[Statement]) -> Outline:
        statements: list[Statement] = []
        facts: dict[str, list[Piece]] = {}
        shapes: dict[tuple[str, Shape], None] = {}
        plain = True
        for statement in text:
            found = shapes_of(statement)
            if found is None:
                plain = False
                statements.append(statement)
                continue
            new = set(found) - shapes.keys()
            shapes.update(dict.fromkeys(found))
            if isinstance(statement, Facts):
                statements += examples(statement, new)
            elif new:
                statements.append(statement)
            for piece in pieces_of(statement):
                facts.setdefault(piece.name, []).append(piece)
        return Outline(tuple(statements), facts, shapes, plain)

    def without(self, statements: Sequence[Statement]) -> Outline:
        """The outline of the text without these statements, which are no facts."""
        if not statements:
            return self
        gone = set(map(id, statements))
        rest = tuple(s for s in self.statements if id(s) not in gone)
        plain = all(shapes_of(s) is not None for s in rest)
        return replace(self, statements=rest, plain=plain)

    def params(self, name: str) -> set[str]:
        """The parameters in facts of a relation."""
        kinds = (kind for own, shape in self.shapes if own == name for kind in shape)
        return {kind[1:] for kind in kinds if kind[0] == "$"}


def nodes_of(statement: Statement) -> list[Node]:
    """The heads and the body of a rule or of a retraction, or the body of a query and its
    limits."""
    heads = statement.heads if isinstance(statement, Rule) else ()
    heads = (statement.atom,) if isinstance(statement, Retract) else heads
    body = statement.body if isinstance(statement, Rule | Query | Retract) else None
    bounds = statement.bounds if isinstance(statement, Query) else ()
    return [*heads, *([] if body is None else [body]), *bounds]


@dataclass(frozen=True, slots=True)
class KeptRules:
    """The rules that the database keeps of a text, and the folders of its inputs."""

    statements: tuple[Statement, ...]
    folders: Folders
    outline: Outline

    @staticmethod
    def of(
        statements: Sequence[Statement], folders: Folders, outline: Outline | None = None
    ) -> KeptRules:
        return KeptRules(tuple(statements), folders, outline or Outline.of(statements))


@dataclass(eq=False)
class ProgramTexts(Mapping[str, KeptRules]):
    """Texts by their keys, in the order in which they were kept. A key's text never changes.

    `with_more` adds the new texts to the lists and dicts of this object, and shares them:
    `_length` is how many of the texts an object has.
    """

    log: list[str] = field(default_factory=list)  # the keys
    _kept: list[KeptRules] = field(default_factory=list)
    _at: dict[str, int] = field(default_factory=dict)  # the position of a key's text
    _seen: list[int] = field(default_factory=list)  # the texts that the checks read
    _shapes: dict[tuple[str, Shape], int] = field(default_factory=dict)  # the first text with each
    _names: dict[str, int] = field(default_factory=dict)  # the first text that names a relation
    _facts: dict[str, list[Piece]] = field(default_factory=dict)  # by relation
    _homes: dict[str, list[int]] = field(default_factory=dict)  # the text of each of these pieces
    _kinds: dict[str, list[Shape]] = field(default_factory=dict)  # the shapes of these facts
    _params: dict[str, set[str]] = field(default_factory=dict)  # the parameters in these facts
    _first: dict[Hashable, int] = field(default_factory=dict)  # the first text with each fact
    _new: dict[str, list[int]] = field(default_factory=dict)  # the same by relation, ascending
    _totals: list[int] = field(default_factory=list)  # the number of facts up to each text
    _unnoted: list[int] = field(default_factory=list)  # texts whose facts these two do not have yet
    _noting: LockType = field(default_factory=Lock)  # held to change the last four
    _length: int = 0

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[str]:
        return iter(self.log[: self._length])

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self._at.get(key, self._length) < self._length

    def __getitem__(self, key: str) -> KeptRules:
        at = self._at.get(key, self._length)
        if at >= self._length:
            raise KeyError(key)
        return self._kept[at]

    def with_more(self, more: Mapping[str, KeptRules]) -> ProgramTexts:
        """These texts and others after them, with new keys."""
        if not more:
            return self
        if self._length < len(self.log):  # texts were added to these before
            return ProgramTexts().with_more({**self, **more})
        for key, kept in more.items():
            self._add(key, kept)
        longer = copy(self)
        longer._length = len(self.log)
        return longer

    def _add(self, key: str, kept: KeptRules) -> None:
        at, outline = len(self.log), kept.outline
        if not (outline.plain and outline.shapes.keys() <= self._shapes.keys()):
            self._seen.append(at)
            for statement in outline.statements:
                for name in (*names_of(statement), *reads_of(statement)):
                    self._names.setdefault(name, at)
        for shape in outline.shapes:
            if shape not in self._shapes:
                self._shapes[shape] = at
                self._kinds.setdefault(shape[0], []).append(shape[1])
                self._params.setdefault(shape[0], set()).update(outline.params(shape[0]))
        for name, pieces in outline.facts.items():  # another thread may read the facts before
            self._homes.setdefault(name, []).extend([at] * len(pieces))
            self._facts.setdefault(name, []).extend(pieces)
        own = sum(map(number_of, outline.facts.values()))
        self._totals.append(own + (self._totals[-1] if at else 0))
        self._at[key] = at
        self.log.append(key)
        self._kept.append(kept)
        with self._noting:
            self._unnoted.append(at)

    def without(self, keys: Collection[str]) -> ProgramTexts:
        if not any(key in self for key in keys):
            return self
        return ProgramTexts().with_more({k: kept for k, kept in self.items() if k not in keys})

    def less(self, names: Collection[str], part: Part = "all") -> ProgramTexts:
        """The texts without their statements about some relations."""
        if not any(self.speaks_of(name) for name in names):
            return self
        return self.revised(lambda statements: without(statements, names, part))

    def without_inputs(self, name: str) -> ProgramTexts:
        """The texts without the `.input`s of a relation."""
        return self.revised(lambda text: without_inputs(text, name))

    def without_facts(
        self, name: str, marks: Iterable[bool], computed: Collection[Atom]
    ) -> ProgramTexts:
        """The texts without some facts of a relation: those with a mark, in the order of `facts`,
        and these heads with expressions."""
        gone = iter(marks)
        return self.revised(lambda text: without_facts(text, name, gone, computed))

    def computed(self, name: str) -> list[Atom]:
        """The heads of a relation's facts with expressions."""
        facts = (s for s in self.outline() if is_fact(s) and shapes_of(s) is None)
        return [head for s in facts if isinstance(s, Rule) for head in s.heads if head.name == name]

    def revised(self, change: Callable[[Sequence[Statement]], Sequence[Statement]]) -> ProgramTexts:
        """The texts with replaced statements; texts without statements are dropped."""
        found: dict[str, KeptRules] = {}
        for key, kept in self.items():
            rest = change(kept.statements)
            same = len(rest) == len(kept.statements) and all(map(is_, rest, kept.statements))
            found[key] = kept if same else KeptRules.of(rest, kept.folders)
        if all(kept is self[key] for key, kept in found.items()):
            return self
        return ProgramTexts().with_more({k: kept for k, kept in found.items() if kept.statements})

    def speaks_of(self, name: str) -> bool:
        """Whether a text defines, declares or reads a relation."""
        return self._names.get(name, self._length) < self._length

    def repeats(self, key: str, text: Sequence[Statement]) -> bool:
        """Whether the key has this very text already, and the text has only facts."""
        if key not in self:
            return False
        kept = self[key]
        return kept.outline.plain and kept.statements == tuple(text)

    # ---------------------------------------------------------------------------- statements

    def statements(self) -> list[Statement]:
        return [s for kept in self._kept[: self._length] for s in kept.statements]

    def seen(self) -> list[KeptRules]:
        """The texts that the checks read: those with other statements, or facts of a new shape."""
        end = bisect_left(self._seen, self._length)
        return [self._kept[at] for at in self._seen[:end]]

    def outline(self) -> Iterable[Statement]:
        """The statements that the checks read."""
        return (statement for kept in self.seen() for statement in kept.outline.statements)

    def says_all(self, outline: Outline) -> bool:
        """Whether a text has only facts, and these texts have facts of all their shapes."""
        return outline.plain and all(
            self._shapes.get(shape, self._length) < self._length for shape in outline.shapes
        )

    # ---------------------------------------------------------------------------------- facts

    def facts(self, name: str, own: Outline | None = None) -> FactList:
        """The facts of a relation, followed by those of a text that is not kept, if given."""
        pieces, there = self._facts.get(name), NO_FACTS
        if pieces is not None:
            end = bisect_left(self._homes[name], self._length)
            there = FactList(pieces, self._params[name], end)
        if own is None or name not in own.facts:
            return there
        return FactList([*there, *own.facts[name]], {*there.params, *own.params(name)})

    @property
    def number_of_facts(self) -> int:
        """The number of facts of all relations."""
        return self._totals[self._length - 1] if self._length else 0

    def has_fact(self, key: Hashable) -> bool:
        """Whether a text has the fact with this key (`keys_of`)."""
        self._note()
        return self._first.get(key, self._length) < self._length

    def rows(self, name: str, types: Shape) -> int | None:
        """The number of rows of a relation's facts, if distinct facts are distinct rows."""
        if self._kinds.get(name) != [types]:
            return None
        self._note()
        return bisect_left(self._new.get(name, ()), self._length)

    def _note(self) -> None:
        """Finds the first text with each fact."""
        with self._noting:
            for at in self._unnoted:
                for name, pieces in self._kept[at].outline.facts.items():
                    new = self._new.setdefault(name, [])
                    for key in chain.from_iterable(map(keys_of, pieces)):
                        if key not in self._first:
                            self._first[key] = at
                            new.append(at)
            self._unnoted.clear()
