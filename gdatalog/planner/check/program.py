"""The checks: turns a parsed program into a checked one, or reports all of its errors.

    names -> types -> inline relations -> safety -> aggregated heads -> strata -> cautions

Each pass continues with what the earlier passes accepted, and reports no error that only follows
from one of theirs.

Data changes under the rules that a database keeps: a relation is dropped, or loaded with other
types. A statement that no longer passes the checks is invalid, and breaks the relations that it
defines. Relations that read a broken one are broken too; all others are evaluated as before.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter

from gdatalog.errors import Caution, Error, TypeMismatchError, raise_together
from gdatalog.parser import syntax as s
from gdatalog.planner.check import Checked, CheckedQuery, CheckedRule, Schema, ValueList
from gdatalog.planner.check.catalog import collect, show_schema
from gdatalog.planner.check.cautions import cautions_of
from gdatalog.planner.check.heads import check_heads, names_of_columns, place_named
from gdatalog.planner.check.inlining import Inlining, declared_inline
from gdatalog.planner.check.invalid import NOTHING_BROKEN, Cause
from gdatalog.planner.check.lattice import check_lattice
from gdatalog.planner.check.lists import with_lists
from gdatalog.planner.check.names import NameResolution
from gdatalog.planner.check.reach import with_rows
from gdatalog.planner.check.safety import check_safety
from gdatalog.planner.check.strata import components, stratify
from gdatalog.planner.check.types import TypeInference
from gdatalog.planner.check.walk import Shape, names_of, reads_of, shapes_of, with_floats, without
from gdatalog.planner.check.wording import either
from gdatalog.records import dataclass, field
from gdatalog.values import ParamType


def examine(
    program: s.Program,
    known: Mapping[str, Schema],
    params: Mapping[str, ParamType],
    *,
    whole: bool = True,
    broken: Mapping[str, Cause] = NOTHING_BROKEN,
) -> tuple[Checked | None, list[Error]]:
    """Checks a program over relations that have data (`known`) and parameters of these types;
    returns all errors.

    `whole`: the program is complete, so that a declared relation without data is worth a warning;
    a line at the prompt is not complete. `broken`: relations that cannot be evaluated, and that the
    program must not use.
    """
    errors: list[Error] = []
    catalog = collect(program, known, errors, broken)
    cautions: list[Caution] = []
    program, placed = place_named(program, catalog, errors)
    names = NameResolution(catalog, params, errors, cautions)
    facts, examples, rules, queries = _resolve(program, names)
    types = _infer(TypeInference(catalog, params, errors), examples, rules)
    typed = list(types.checked_rules())
    asked = {query.relation: query.span for query in queries}
    inlining = None
    if spans := declared_inline(program):
        inlining = Inlining(typed, facts, catalog, spans)
        typed = inlining.expanded(asked, errors)
        cautions += inlining.cautions
    else:
        for rule in typed:
            check_safety(rule, errors)
    typed, wrong = check_heads(typed, facts, catalog, errors)
    param_types = types.param_types()
    lists: dict[str, ValueList] = {}
    typed = [with_lists(rule, param_types, lists) for rule in typed]
    strata = stratify(typed, errors)
    for stratum in strata:
        if stratum.recursive and wrong.isdisjoint(stratum.relations):
            check_lattice(stratum, errors)
    named = {**names_of_columns([rule.head for rule in typed]), **placed}
    schemas = _schemas(types, named, facts)
    if errors:
        return None, errors
    schemas |= {name: Schema(name, *values.schema) for name, values in lists.items()}
    own = [each for each in program.statements if isinstance(each, s.Rule)]
    checked = Checked(
        schemas=schemas,
        strata=strata,
        facts={name: _typed(atoms, schemas[name]) for name, atoms in facts.items()},
        queries=tuple(queries),
        directives=tuple(catalog.directives),
        pragmas=tuple(p.args for p in program.statements if isinstance(p, s.Pragma)),
        param_types=param_types,
        cautions=cautions_of(program, catalog, whole, cautions),
        last=next((rule.heads[0].name for rule in reversed(own)), None),
        inline=frozenset() if inlining is None else frozenset(inlining.definitions),
        unbound={} if inlining is None else inlining.unbound,
        lists=lists,
    )
    return checked, errors


def _resolve(
    program: s.Program, names: NameResolution
) -> tuple[dict[str, list[s.Atom]], Sequence[s.Atom], list[CheckedRule], list[CheckedQuery]]:
    """Separates facts, resolves the names of rules, and makes the rules that answer queries.

    Returns the facts of each relation, and the first of each shape: the other facts need no checks.
    """
    facts: dict[str, list[s.Atom]] = {}
    examples: dict[tuple[str, Shape], s.Atom] = {}
    rules: list[CheckedRule] = []
    queries: list[CheckedQuery] = []
    for statement in program.statements:
        if isinstance(statement, s.Rule):
            shapes = shapes_of(statement)
            if shapes is None:
                rules += names.rule(statement)
                continue
            for head, shape in zip(statement.heads, shapes, strict=True):
                facts.setdefault(head.name, []).append(head)
                examples.setdefault(shape, head)
        elif isinstance(statement, s.Query):
            query, rule = names.query(statement)
            if query is not None:
                queries.append(query)
            if rule is not None:
                rules.append(rule)
    for fact in examples.values():
        names.fact(fact)
    return facts, tuple(examples.values()), rules, queries


def _infer(
    types: TypeInference, facts: Sequence[s.Atom], rules: Sequence[CheckedRule]
) -> TypeInference:
    for rule in rules:
        if rule.head.name not in types.catalog.relations:
            types.add_relation(rule.head.name, len(rule.head.args))
    for fact in facts:
        types.see_fact(fact)
    by_rules = {rule.head.name for rule in rules}
    for name in {fact.name: None for fact in facts}:
        if name not in by_rules and not types.errors:
            types.settle_facts(name)
    for rule in rules:
        types.see(rule)
    if not types.errors:
        types.settle_lists()
    return types


def _typed(facts: Sequence[s.Atom], schema: Schema) -> tuple[s.Atom, ...]:
    """The facts, with floats for int literals in columns of floats."""
    floats = [at for at, kind in enumerate(schema.types) if kind == "float"]
    return tuple(with_floats(fact, floats) for fact in facts) if floats else tuple(facts)


# -------------------------------------------------------------------------------- schemas


def _schemas(
    types: TypeInference, named: Mapping[str, tuple[str, ...]], facts: Iterable[str]
) -> dict[str, Schema]:
    """The columns of every relation; `named` gives their names where no declaration does. An error
    for each column whose type nothing settles; if its relation can have no row, it is int.

    `facts`: the relations that have facts.
    """
    schemas: dict[str, Schema] = {}
    for name in types.columns:
        relation = types.catalog.relations.get(name)
        if relation is not None and relation.schema is not None:
            schemas[name] = relation.schema
            continue
        kinds = types.column_types(name)
        columns = named.get(name) or tuple(f"c{at}" for at in range(len(kinds)))
        schemas[name] = Schema(name, columns, kinds, relation.span if relation else None)
    if not types.errors:
        _open_columns(types, schemas, facts)
    return schemas


def _open_columns(
    types: TypeInference, schemas: Mapping[str, Schema], facts: Iterable[str]
) -> None:
    """One error for all columns that one declaration would settle."""
    relations = types.catalog.relations.values()
    unsettled = [
        each
        for each in relations
        if each.schema is None
        and not each.broken
        and (each.arity is None or types.open_columns(each.name))
    ]
    if not unsettled:
        return
    reported: set[int] = set()
    rules = [rule for rule, _, _ in types.seen]
    derived = {rule.head.name for rule in rules}
    read = {
        name for each in types.catalog.directives if each.kind == "input" for name in each.names
    }
    given = {each.name for each in relations if each.name not in derived or each.schema}
    reached = with_rows(rules, given.union(read, facts))
    # undefined relations first: declaring them may settle the others
    for relation in sorted(unsettled, key=lambda r: r.said == "is defined with"):
        name, schema = relation.name, schemas[relation.name]
        if name not in reached:
            continue
        if relation.arity is None:
            message = f"nothing says which columns `{name}` has"
            hint = f"declare them, as in `.decl {name}(x: int, y: symbol)`"
            types.errors.append(TypeMismatchError(message, relation.span, hint=hint))
        open_here = []
        for at, same in types.open_columns(name).items():
            if same not in reported:
                reported.add(same)
                open_here.append(f"`{schema.columns[at]}`")
        if open_here:
            columns, have = ("columns", "have") if len(open_here) > 1 else ("column", "has")
            of = f"the {columns} {either(open_here, 'and')} of `{name}` {have}"
            hint = f"declare it, as in `.decl {show_schema(schema)}`"
            message = f"nothing says which type {of}"
            types.errors.append(TypeMismatchError(message, relation.span, hint=hint))


# Kept statements: which are valid, and which relations are broken.


@dataclass(frozen=True, slots=True)
class Validity:
    """`invalid`: what is wrong with statements, by their id. `broken`: the relations that
    cannot be evaluated."""

    invalid: Mapping[int, Error] = field(default_factory=dict)
    broken: Mapping[str, Cause] = field(default_factory=dict)

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
) -> tuple[Checked, Validity, Validity | None]:
    """Checks a text (`said`) together with the statements that a database keeps.

    Returns the checked program and the validity of the kept statements: with the text, and `alone`,
    if that was needed. Raises the errors of the text, and those of kept statements that are valid
    without it.

    `unread`: kept statements, by their id, whose files cannot be read.
    """
    # A rule that is kept and stands in the text too is one rule.
    own = {r for r in said if isinstance(r, s.Rule) and r.body is not None}
    views = [k for k in kept if not (own and isinstance(k, s.Rule) and k.body and k in own)]
    if not (unread if alone is None else alone.invalid):
        checked, errors = examine(s.Program((*views, *said)), known, params, whole=whole)
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
    checked, errors = examine(program, known, params, whole=whole, broken=validity.broken)
    raise_together(errors)
    assert checked is not None
    return checked, validity, alone


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
        return max(rank[name] for name in names_of(statement))

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
