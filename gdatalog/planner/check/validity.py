"""Checks texts with the statements that a database keeps: which are valid, which relations broken.

Data changes under the rules that a database keeps: a relation is dropped, or loaded with other
types. A statement that no longer passes the checks is invalid, and breaks the relations that it
defines. Relations that read a broken one are broken too; all others are evaluated as before.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter

from gdatalog.errors import Error, raise_together
from gdatalog.parser import syntax as s
from gdatalog.planner.check import Checked, Schema
from gdatalog.planner.check.extending import KeptProgram, extended
from gdatalog.planner.check.invalid import Cause
from gdatalog.planner.check.program import examine
from gdatalog.planner.check.statements import names_of, reads_of, without
from gdatalog.planner.check.strata import components
from gdatalog.planner.passes import PassNotes
from gdatalog.records import dataclass, field
from gdatalog.values import ParamType


@dataclass(frozen=True, slots=True)
class Validity:
    """`invalid`: what is wrong with statements, by their id. `broken`: the relations that
    cannot be evaluated. `program`: the statements themselves, if all are valid and were checked
    without a text."""

    invalid: Mapping[int, Error] = field(default_factory=dict)
    broken: Mapping[str, Cause] = field(default_factory=dict)
    program: KeptProgram | None = field(default=None, compare=False)

    def usable(self, statements: Iterable[s.Statement]) -> list[s.Statement]:
        """The statements without invalid ones, and without rules of broken relations.

        A valid declaration stays: the relation is declared, broken or not.
        """
        left: list[s.Statement] = []
        for statement in statements:
            if self.fits(statement):
                left.append(statement)
            elif id(statement) not in self.invalid:
                left += without([statement], self.broken)
        return left

    def fits(self, statement: s.Statement) -> bool:
        """Whether a statement is usable as it is."""
        if id(statement) in self.invalid:
            return False
        return isinstance(statement, s.Decl) or self.broken.keys().isdisjoint(names_of(statement))


VALID = Validity()
SINGLY = 8  # attempts that take one invalid statement of each relation; later ones take all


def check_with(
    kept: Sequence[s.Statement],
    said: Sequence[s.Statement],
    known: Mapping[str, Schema],
    params: Mapping[str, ParamType],
    unread: Mapping[int, Error],
    alone: Validity | None,
    whole: bool,
    notes: PassNotes | None = None,
) -> tuple[Checked, Validity, Validity | None]:
    """Checks a text (`said`) together with the statements that a database keeps.

    Returns the checked program and the validity of the kept statements: with the text, and `alone`,
    if that was needed. Raises the errors of the text, and those of kept statements that are valid
    without it.

    `unread`: kept statements, by their id, whose files cannot be read.
    """
    if said and kept and not unread and notes is None and alone is None:
        alone = _by_themselves(kept, known, params)
        found = check_over(alone, said, known, params, whole)
        if found is not None:
            return found, VALID, alone
    # A rule that is kept and stands in the text too is one rule.
    own = {r for r in said if isinstance(r, s.Rule) and r.body is not None} if kept else set()
    views = [k for k in kept if not (own and isinstance(k, s.Rule) and k.body and k in own)]
    if not (unread if alone is None else alone.invalid):
        checked, errors = examine(
            s.Program((*views, *said)), known, params, whole=whole, notes=notes
        )
        if checked is not None:
            return checked, VALID, alone
        alone = alone or isolate((), kept, known, params, unread)
        if not alone.invalid:
            raise_together(errors)
    validity = alone = alone or isolate((), kept, known, params, unread)
    aside = [view for view in views if not alone.fits(view)]
    if _mends(said, aside):
        firm = [view for view in views if alone.fits(view)]
        validity = isolate((*firm, *said), aside, known, params, unread)
    program = s.Program((*validity.usable(views), *said))
    if notes is not None:
        notes.records.clear()  # of the attempt that failed
    checked, errors = examine(
        program, known, params, whole=whole, broken=validity.broken, notes=notes
    )
    raise_together(errors)
    assert checked is not None
    return checked, validity, alone


def check_over(
    alone: Validity | None,
    said: Sequence[s.Statement],
    known: Mapping[str, Schema],
    params: Mapping[str, ParamType],
    whole: bool,
) -> Checked | None:
    """Checks a text, and not again the statements that a database keeps; None if it has to be
    checked with them. `alone`: the validity of these, as `check_with` returned it."""
    if alone is None or alone.program is None:
        return None
    return extended(alone.program, said, known, params, whole)


def _by_themselves(
    kept: Sequence[s.Statement], known: Mapping[str, Schema], params: Mapping[str, ParamType]
) -> Validity | None:
    """The kept statements, checked without a text; None if one of them is invalid."""
    checked, _ = examine(s.Program(tuple(kept)), known, params, whole=False)
    return None if checked is None else Validity(program=KeptProgram.of(checked, kept))


def isolate(
    firm: Sequence[s.Statement],
    kept: Sequence[s.Statement],
    known: Mapping[str, Schema],
    params: Mapping[str, ParamType],
    invalid: Mapping[int, Error],
) -> Validity:
    """Which of the `kept` statements are valid; those of `firm` have to be.

    Types flow from data through rules to the rules that read them, so statements are checked in
    this order: of two that conflict the one nearer to the data is valid, else the one kept first.
    `invalid`: statements that are known to be.
    """
    ordered = _by_dependency(kept)
    wrong = dict(invalid)
    attempts = 0
    while True:
        validity = Validity(wrong, _broken(ordered, wrong))
        program = s.Program((*firm, *validity.usable(ordered)))
        _, errors = examine(program, known, params, broken=validity.broken)
        blamed = _blamed(errors, ordered, validity)
        if not blamed:
            return validity
        wrong = {**wrong, **_causes(ordered, blamed, validity, single=attempts < SINGLY)}
        attempts += 1


def _mends(own: Sequence[s.Statement], kept: Sequence[s.Statement]) -> bool:
    """Whether a text may make invalid statements valid: it defines a name that they use."""
    if any(isinstance(statement, s.TypeDecl) for statement in own):
        return True
    defined = {name for statement in own for name in names_of(statement)}
    return bool(defined) and any(
        not defined.isdisjoint((*names_of(statement), *reads_of(statement))) for statement in kept
    )


def _by_dependency(statements: Sequence[s.Statement]) -> list[s.Statement]:
    """Sorts statements: declarations and facts, then rules, each after the rules that it reads."""
    reads: dict[str, set[str]] = {}
    for statement in statements:
        if isinstance(statement, s.Rule) and statement.body is not None:
            for name in names_of(statement):
                reads.setdefault(name, set()).update(reads_of(statement))
    rank: dict[str, int] = {}
    for at, component in enumerate(components({name: sorted(of) for name, of in reads.items()})):
        rank.update(dict.fromkeys(component, at))

    def place(statement: s.Statement) -> int:
        if not isinstance(statement, s.Rule) or statement.body is None:
            return -1
        return max([rank[name] for name in names_of(statement)])

    return sorted(statements, key=place)


def _broken(ordered: Sequence[s.Statement], invalid: Mapping[int, Error]) -> dict[str, Cause]:
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


def _defines(statement: s.Statement) -> bool:
    """Whether its relations cannot be evaluated without this statement."""
    if isinstance(statement, s.Directive):
        return statement.kind == "input"
    return isinstance(statement, (s.Rule, s.Decl))


def _causes(
    ordered: Sequence[s.Statement], blamed: Mapping[int, Error], validity: Validity, single: bool
) -> dict[int, Error]:
    """The statements that errors are about, without those that only read what others break.

    `single`: only the first of each relation, which may be the cause of the other errors.
    """
    broken = set(validity.broken)
    found: set[str] = set()
    causes: dict[int, Error] = {}
    for statement in ordered:
        if id(statement) in validity.invalid:
            continue
        error = blamed.get(id(statement))
        if not broken.isdisjoint(reads_of(statement)):
            broken.update(names_of(statement))
        elif error is not None:
            names = names_of(statement)
            broken.update(names)
            if not single or found.isdisjoint(names):
                causes[id(statement)] = error
                found.update(names)
    return causes


def _blamed(
    errors: Sequence[Error], statements: Sequence[s.Statement], validity: Validity
) -> dict[int, Error]:
    """The valid statements that errors are about, by their id: the statement at the place of the
    error, otherwise at that of its first note."""
    places: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for statement in statements:
        if id(statement) not in validity.invalid:
            span = statement.span
            places[id(span.source)].append((span.start, span.end, id(statement)))
    for those in places.values():
        those.sort()
    causes = {id(cause.error.span) for cause in validity.broken.values()}
    blamed: dict[int, Error] = {}
    for error in errors:
        spans = [error.span, *(note.span for note in error.notes)]
        if not causes.isdisjoint(map(id, spans[1:])):
            continue  # the use of a broken relation by a statement that has to be valid
        for span in filter(None, spans):
            those = places[id(span.source)]
            at = bisect_right(those, span.start, key=itemgetter(0)) - 1
            if at >= 0 and span.start <= those[at][1]:
                blamed.setdefault(those[at][2], error)
                break
    return blamed
