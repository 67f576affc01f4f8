"""The checks: turns a parsed program into a checked one, or reports all of its errors.

`PASSES` lists them in order. Each pass continues with what the earlier passes accepted, and reports
no error that only follows from one of theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter

from gdatalog.errors import Caution, Error, UsageError
from gdatalog.parser import syntax as s
from gdatalog.plan.functions import DECIMAL
from gdatalog.planner.check import Checked, CheckedQuery, CheckedRule, Schema, Stratum, ValueList
from gdatalog.planner.check.catalog import Declarations
from gdatalog.planner.check.cautions import cautions_of
from gdatalog.planner.check.checked import rule_text
from gdatalog.planner.check.column_names import ColumnNames, names_of_columns, place_named
from gdatalog.planner.check.decimal_types import DecimalInference
from gdatalog.planner.check.declarations import collect
from gdatalog.planner.check.heads import check_heads
from gdatalog.planner.check.inlining import Inlining, declared_inline
from gdatalog.planner.check.invalid import NOTHING_BROKEN, Cause
from gdatalog.planner.check.lattice import check_lattice
from gdatalog.planner.check.lists import with_lists
from gdatalog.planner.check.names import NameResolution
from gdatalog.planner.check.nulls import with_nulls
from gdatalog.planner.check.ordered_heads import split_ordered
from gdatalog.planner.check.safety import check_safety
from gdatalog.planner.check.schemas import schemas_of
from gdatalog.planner.check.statements import Shape, shapes_of, with_types
from gdatalog.planner.check.strata import stratify
from gdatalog.planner.check.types import TypeInference
from gdatalog.planner.check.zones import with_zones
from gdatalog.planner.passes import PassNotes
from gdatalog.records import dataclass, field
from gdatalog.values import ParamType

KINDS, NULLABLE = attrgetter("kinds"), attrgetter("nullable")


def examine(
    program: s.Program,
    known: Mapping[str, Schema],
    params: Mapping[str, ParamType],
    *,
    whole: bool = True,
    broken: Mapping[str, Cause] = NOTHING_BROKEN,
    notes: PassNotes | None = None,
) -> tuple[Checked | None, list[Error]]:
    """Checks a program over relations that have data (`known`) and parameters of these types;
    returns all errors.

    `whole`: the program is complete, so that a declared relation without data is worth a warning;
    a line at the prompt is not complete. `broken`: relations that cannot be evaluated, and that the
    program must not use.
    """
    draft = ProgramDraft(program, known, params, whole, broken)
    for each in PASSES:
        each(draft)
        if notes is not None:
            notes.note(each, draft.lines())
    return draft.checked, draft.errors


@dataclass(slots=True, eq=False)
class ProgramDraft:
    """A program that is being checked."""

    program: s.Program
    known: Mapping[str, Schema]
    params: Mapping[str, ParamType]
    whole: bool
    broken: Mapping[str, Cause]
    errors: list[Error] = field(default_factory=list)
    cautions: list[Caution] = field(default_factory=list)
    catalog: Declarations = field(init=False)
    columns: ColumnNames = field(init=False)
    split: s.Program = field(init=False)  # the program without functions that depend on an order
    facts: Mapping[str, Sequence[s.Atom]] = field(default_factory=dict)
    examples: Sequence[s.Atom] = ()  # a fact of each shape
    rules: list[CheckedRule] = field(default_factory=list)
    queries: Sequence[CheckedQuery] = ()
    types: TypeInference = field(init=False)
    inlining: Inlining | None = None
    wrong: set[str] = field(default_factory=set)  # relations whose heads have errors
    lists: dict[str, ValueList] = field(default_factory=dict)
    strata: tuple[Stratum, ...] = ()
    checked: Checked | None = None

    def lines(self) -> tuple[str, ...]:
        return tuple(map(rule_text, self.rules))


def collect_relations(draft: ProgramDraft) -> None:
    """The relations and types that are declared or have data."""
    draft.catalog = collect(draft.program, draft.known, draft.errors, draft.broken)


def place_named_columns(draft: ProgramDraft) -> None:
    """Arguments of heads that name a column are put in its place."""
    draft.columns = place_named(draft.program, draft.catalog, draft.errors)
    draft.program = draft.columns.program


def split_ordered_heads(draft: ProgramDraft) -> None:
    """Functions of heads that depend on an order get rules of their own."""
    draft.split = split_ordered(draft.program, draft.catalog, draft.columns, draft.errors)


def resolve_names(draft: ProgramDraft) -> None:
    """Names become relations, functions and variables; a query becomes a rule."""
    names = NameResolution(draft.catalog, draft.columns, draft.params, draft.errors, draft.cautions)
    draft.facts, draft.examples, draft.rules, draft.queries = _resolve(draft.split, names)


def infer_types(draft: ProgramDraft) -> None:
    """Variables and columns get types; an int becomes a float where a float is needed."""
    catalog, params = draft.catalog, draft.params
    decimals = catalog.decimals or not DECIMAL.isdisjoint(params.values())
    types = (DecimalInference if decimals else TypeInference)(catalog, params, draft.errors)
    draft.types = _infer(types, draft.examples, draft.rules)
    for query in draft.program.statements:
        if isinstance(query, s.Query) and query.ordering is not None:
            types.see_bounds(query)
    draft.rules = list(types.checked_rules())


def expand_inline_relations(draft: ProgramDraft) -> None:
    """The rules of inline relations replace the atoms that read them."""
    spans = declared_inline(draft.program)
    if spans:
        draft.inlining = Inlining(draft.rules, draft.facts, draft.catalog, spans)
        asked = {query.relation: query.span for query in draft.queries}
        draft.rules = draft.inlining.expanded(asked, draft.errors)
        draft.cautions += draft.inlining.cautions


def check_variables(draft: ProgramDraft) -> None:
    """Each variable is bound; the expansion of inline relations has checked its rules."""
    for rule in draft.rules if draft.inlining is None else ():
        check_safety(rule, draft.errors)


def aggregate_alike(draft: ProgramDraft) -> None:
    """All heads of a relation aggregate alike: where one takes a `min`, so do the others."""
    draft.rules, draft.wrong = check_heads(draft.rules, draft.facts, draft.catalog, draft.errors)


def make_lists_relations(draft: ProgramDraft) -> None:
    """Long lists of values become relations, which are joined like any other."""
    types = draft.types.param_types()
    draft.rules = [with_lists(rule, types, draft.lists) for rule in draft.rules]


def order_strata(draft: ProgramDraft) -> None:
    """Relations that depend on each other become a stratum, and strata get an order."""
    draft.strata = stratify(draft.rules, draft.errors)
    for stratum in draft.strata:
        if stratum.recursive and draft.wrong.isdisjoint(stratum.relations):
            check_lattice(stratum, draft.errors)


def settle(draft: ProgramDraft) -> None:
    """All relations get schemas, and the program is complete if it has no errors."""
    program, catalog, inlining = draft.program, draft.catalog, draft.inlining
    named = {**draft.columns.of_heads(), **draft.columns.named}
    made = [rule.head for rule in draft.rules if rule.head.name not in named]
    if made:
        named |= names_of_columns(made)
    schemas = schemas_of(draft.types, named, draft.facts)
    if not draft.errors and any(map(KINDS, schemas.values())):
        of_times = schemas, draft.strata, draft.facts, draft.errors
        schemas, draft.strata = with_zones(*of_times)
    if draft.types.nulls or any(map(NULLABLE, schemas.values())):
        of = draft.strata, draft.examples, draft.types.param_types()
        schemas, draft.strata = with_nulls(schemas, *of, draft.errors)
    if draft.errors:
        return
    schemas |= {name: Schema(name, *values.schema) for name, values in draft.lists.items()}
    own = [each for each in program.statements if isinstance(each, s.Rule)]
    draft.checked = Checked(
        schemas=schemas,
        strata=draft.strata,
        facts={name: _typed(atoms, schemas[name]) for name, atoms in draft.facts.items()},
        queries=tuple(draft.queries),
        directives=tuple(catalog.directives),
        pragmas=tuple([p.args for p in program.statements if isinstance(p, s.Pragma)]),
        param_types=draft.types.param_types(),
        cautions=cautions_of(program, catalog, draft.whole, draft.cautions),
        last=next((rule.heads[0].name for rule in reversed(own)), None),
        inline=frozenset() if inlining is None else frozenset(inlining.definitions),
        unbound={} if inlining is None else inlining.unbound,
        lists=draft.lists,
    )


PASSES = (
    collect_relations,
    place_named_columns,
    split_ordered_heads,
    resolve_names,
    infer_types,
    expand_inline_relations,
    check_variables,
    aggregate_alike,
    make_lists_relations,
    order_strata,
    settle,
)


def not_run(retract: s.Retract) -> Error:
    """The error for a retraction in a text that is not run, or that another text includes."""
    message = "`retract` changes the data, and stands only in a text that is run"
    hint = "give it to db.run(...) or to the prompt, or use db.delete(...)"
    return UsageError(message, retract.span, hint=hint)


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
        elif isinstance(statement, s.Retract):
            names.errors.append(not_run(statement))
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
    if types.decimals:
        types.settle_operators()
    if not types.errors:
        if types.choices:
            types.settle_choices()
        types.settle_lists()
        types.settle_open()
    return types


def _typed(facts: Sequence[s.Atom], schema: Schema) -> tuple[s.Atom, ...]:
    """The facts, with their literals as floats, decimals and dates in columns of these."""
    types = {
        at: kind
        for at, kind in enumerate(schema.types)
        if kind in ("float", "date") or kind in DECIMAL
    }
    return tuple([with_types(fact, types) for fact in facts]) if types else tuple(facts)
