"""Validity: which of a database's kept statements are valid, and which relations are broken.

Data changes under the rules that are kept: a relation is dropped, or loaded with other types. A
statement that no longer passes the checks is invalid, and breaks the relations that it defines.
Relations that read a broken one are broken too; all others are evaluated as before.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence

from gdatalog.errors import Error, Span, raise_together
from gdatalog.parser import Program
from gdatalog.parser.syntax import Decl, Directive, Rule, Statement, TypeDecl
from gdatalog.planner.check.checked import Cause, Checked, Schema
from gdatalog.planner.check.program import examine
from gdatalog.planner.check.strata import components
from gdatalog.planner.check.walk import names_of, reads_of, without
from gdatalog.records import dataclass, field
from gdatalog.values import ParamType


@dataclass(frozen=True, slots=True)
class Validity:
    """`invalid`: what is wrong with statements, by their id. `broken`: the relations that
    cannot be evaluated."""

    invalid: Mapping[int, Error] = field(default_factory=dict)
    broken: Mapping[str, Cause] = field(default_factory=dict)

    def usable(self, statements: Iterable[Statement]) -> list[Statement]:
        """The statements without invalid ones, and without rules of broken relations.

        A valid declaration stays: the relation is declared, broken or not.
        """
        left: list[Statement] = []
        for statement in statements:
            if self.fits(statement):
                left.append(statement)
            elif id(statement) not in self.invalid:
                left += without([statement], self.broken)
        return left

    def fits(self, statement: Statement) -> bool:
        """Whether a statement is usable as it is."""
        if id(statement) in self.invalid:
            return False
        return isinstance(statement, Decl) or self.broken.keys().isdisjoint(names_of(statement))


VALID = Validity()


def check_with(
    kept: Sequence[Statement],
    said: Sequence[Statement],
    known: Mapping[str, Schema],
    params: Mapping[str, ParamType],
    unread: Mapping[int, Error],
    alone: Validity | None,
    whole: bool,
) -> tuple[Checked, Validity, Validity | None]:
    """A text (`said`) checked with the statements that a database keeps, and which of those are
    valid: with the text, and `alone`, as far as it is known. Errors of the text are raised; so are
    those of kept statements that are valid without it.

    `unread`: kept statements, by their id, whose files cannot be read.
    """
    # A rule that is kept and stands in the text too is one rule.
    own = {s for s in said if isinstance(s, Rule) and s.body is not None}
    views = [s for s in kept if not (own and isinstance(s, Rule) and s.body and s in own)]
    if not (unread if alone is None else alone.invalid):
        checked, errors = examine(Program((*views, *said)), known, params, whole=whole)
        if checked is not None:
            return checked, VALID, alone
        alone = alone or isolate((), kept, known, params, unread)
        if not alone.invalid:
            raise_together(errors)
    validity = alone = alone or isolate((), kept, known, params, unread)
    aside = [s for s in views if not alone.fits(s)]
    if _mends(said, aside):
        firm = [s for s in views if alone.fits(s)]
        validity = isolate((*firm, *said), aside, known, params, unread)
    program = Program((*validity.usable(views), *said))
    checked, errors = examine(program, known, params, whole=whole, broken=validity.broken)
    raise_together(errors)
    assert checked is not None
    return checked, validity, alone


def isolate(
    firm: Sequence[Statement],
    kept: Sequence[Statement],
    known: Mapping[str, Schema],
    params: Mapping[str, ParamType],
    invalid: Mapping[int, Error],
) -> Validity:
    """Which of the `kept` statements are valid, beside those that have to be (`firm`).

    Types flow from data through rules to the rules that read them, so statements are checked in
    this order: of two that conflict the one nearer to the data is valid, else the one kept first.
    `invalid`: statements that are known to be.
    """
    ordered = _by_dependency(kept)
    wrong = dict(invalid)
    while True:
        validity = Validity(wrong, _broken(ordered, wrong))
        program = Program((*firm, *validity.usable(ordered)))
        _, errors = examine(program, known, params, broken=validity.broken)
        blamed = _blamed(errors, ordered, validity)
        if not blamed:
            return validity
        wrong = {**wrong, **_causes(ordered, blamed, validity)}


def _mends(own: Sequence[Statement], kept: Sequence[Statement]) -> bool:
    """Whether a text may make statements valid that are not: it defines what they speak of."""
    if any(isinstance(statement, TypeDecl) for statement in own):
        return True
    defined = {name for statement in own for name in names_of(statement)}
    return bool(defined) and any(
        not defined.isdisjoint((*names_of(statement), *reads_of(statement))) for statement in kept
    )


def _by_dependency(statements: Sequence[Statement]) -> list[Statement]:
    """Declarations and facts first, then rules, those that others read before these."""
    reads: dict[str, set[str]] = {}
    for statement in statements:
        if isinstance(statement, Rule) and statement.body is not None:
            for name in names_of(statement):
                reads.setdefault(name, set()).update(reads_of(statement))
    rank: dict[str, int] = {}
    for at, component in enumerate(components({name: sorted(of) for name, of in reads.items()})):
        rank.update(dict.fromkeys(component, at))

    def place(statement: Statement) -> int:
        if not isinstance(statement, Rule) or statement.body is None:
            return -1
        return max(rank[name] for name in names_of(statement))

    return sorted(statements, key=place)


def _broken(ordered: Sequence[Statement], invalid: Mapping[int, Error]) -> dict[str, Cause]:
    """The relations that invalid statements define, and all that depend on them."""
    broken: dict[str, Cause] = {}
    for statement in ordered:
        error = invalid.get(id(statement))
        if error is not None and _defines(statement):
            for name in names_of(statement):
                broken.setdefault(name, Cause(name, error))
    more = bool(broken)
    while more:
        more = False
        for statement in ordered:
            read = [name for name in reads_of(statement) if name in broken]
            for name in names_of(statement) if read else ():
                if name not in broken:
                    broken[name] = broken[min(read)]
                    more = True
    return broken


def _defines(statement: Statement) -> bool:
    """Whether the relation needs this statement to be evaluated."""
    if isinstance(statement, Directive):
        return statement.kind == "input"
    return isinstance(statement, (Rule, Decl))


def _causes(
    ordered: Sequence[Statement], blamed: Mapping[int, Error], validity: Validity
) -> dict[int, Error]:
    """The statements that errors are about, without those that only read what others break."""
    broken = set(validity.broken)
    causes: dict[int, Error] = {}
    for statement in ordered:
        if id(statement) in validity.invalid:
            continue
        error = blamed.get(id(statement))
        if not broken.isdisjoint(reads_of(statement)):
            broken.update(names_of(statement))
        elif error is not None:
            causes[id(statement)] = error
            broken.update(names_of(statement))
    return causes


class _StatementPlaces:
    """Statements by where they stand."""

    def __init__(self, statements: Iterable[Statement]) -> None:
        found: dict[int, list[tuple[int, int, int]]] = {}
        for statement in statements:
            span = statement.span
            places = found.setdefault(id(span.source), [])
            places.append((span.start, span.end, id(statement)))
        self._found = {source: sorted(places) for source, places in found.items()}

    def at(self, span: Span | None) -> int | None:
        """The id of the statement that holds a place."""
        places = [] if span is None else self._found.get(id(span.source), [])
        if span is None or not places:
            return None
        at = bisect_right(places, span.start, key=lambda place: place[0]) - 1
        if at < 0 or span.start > places[at][1]:
            return None
        return places[at][2]


def _blamed(
    errors: Sequence[Error], statements: Sequence[Statement], validity: Validity
) -> dict[int, Error]:
    """The valid statements that errors are about, by their id: where each error stands, else where
    the first of its notes does."""
    places = _StatementPlaces(s for s in statements if id(s) not in validity.invalid)
    causes = {id(cause.error.span) for cause in validity.broken.values()}
    blamed: dict[int, Error] = {}
    for error in errors:
        spans = [error.span, *(note.span for note in error.notes)]
        if not causes.isdisjoint(map(id, spans[1:])):
            continue  # the use of a broken relation by a statement that has to be valid
        found = next((at for at in map(places.at, spans) if at is not None), None)
        if found is not None:
            blamed.setdefault(found, error)
    return blamed
