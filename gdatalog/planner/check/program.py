"""The checks: turns a parsed program into a checked one, or reports all of its errors.

    names -> types -> inline relations -> safety -> aggregated heads -> strata -> cautions

Each pass continues with what the passes before it accepted, and reports no error that only follows
from an earlier one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gdatalog.errors import Caution, Error, TypeMismatchError, raise_together
from gdatalog.parser.syntax import Pragma, Program, Query, Rule
from gdatalog.planner.check.catalog import Catalog, CatalogRelation, collect
from gdatalog.planner.check.cautions import cautions_of
from gdatalog.planner.check.checked import (
    NOTHING_BROKEN,
    Cause,
    Checked,
    CheckedQuery,
    CheckedRule,
    Schema,
)
from gdatalog.planner.check.heads import check_heads, names_of_columns, place_named
from gdatalog.planner.check.lattice import check_lattice
from gdatalog.planner.check.names import NameResolution
from gdatalog.planner.check.strata import stratify
from gdatalog.planner.check.types import TypeInference
from gdatalog.planner.check.walk import Facts
from gdatalog.planner.check.words import either
from gdatalog.planner.rewrite.inlining import expand_inline
from gdatalog.planner.rewrite.lists import ListRelations
from gdatalog.values import ParamType


def check(
    program: Program,
    known: Mapping[str, Schema],
    params: Mapping[str, ParamType] | None = None,
    *,
    whole: bool = True,
) -> Checked:
    """Check a program over relations that have data (`known`) and parameters of these types.

    `whole`: the program is all there is, so that a declared relation without data is worth a
    warning; not so for a line in the REPL.
    """
    checked, errors = examine(program, known, params or {}, whole=whole)
    raise_together(errors)
    assert checked is not None
    return checked


def examine(
    program: Program,
    known: Mapping[str, Schema],
    params: Mapping[str, ParamType],
    *,
    whole: bool = True,
    broken: Mapping[str, Cause] = NOTHING_BROKEN,
) -> tuple[Checked | None, list[Error]]:
    """As `check`, but returns all errors. `broken`: relations that cannot be evaluated; the program
    must not use them."""
    errors: list[Error] = []
    catalog = collect(program, known, errors, broken)
    cautions: list[Caution] = []
    program, placed = place_named(program, catalog, errors)
    facts, rules, queries = _resolve(program, catalog, params, errors, cautions)
    types = _infer(catalog, facts, rules, params, errors)
    typed = list(types.checked_rules())
    asked = {query.relation: query.span for query in queries}
    inlined = expand_inline(program, catalog, typed, facts.atoms, asked, errors)
    cautions += inlined.cautions
    typed, wrong = check_heads(inlined.rules, facts.atoms, catalog, errors)
    lists = ListRelations(types.param_types())
    typed = [lists.joined(rule) for rule in typed]
    strata = stratify(typed, errors)
    for stratum in strata:
        if stratum.recursive and wrong.isdisjoint(stratum.relations):
            check_lattice(stratum, errors)
    schemas = _schemas(catalog, types, typed, placed, errors)
    if errors:
        return None, errors
    schemas |= lists.schemas()
    checked = Checked(
        schemas=schemas,
        strata=strata,
        facts={name: facts.typed(name, schemas[name].types) for name in facts.atoms},
        queries=tuple(queries),
        directives=tuple(catalog.directives),
        pragmas=tuple(s.args for s in program.statements if isinstance(s, Pragma)),
        param_types=types.param_types(),
        cautions=cautions_of(program, catalog, whole, cautions),
        last=_last(program),
        inline=inlined.names,
        unbound=inlined.unbound,
        lists=lists.found,
    )
    return checked, errors


def _resolve(
    program: Program,
    catalog: Catalog,
    params: Mapping[str, ParamType],
    errors: list[Error],
    cautions: list[Caution],
) -> tuple[Facts, list[CheckedRule], list[CheckedQuery]]:
    """Separates facts, resolves the names of rules, and makes the rules that answer queries."""
    names = NameResolution(catalog, params, errors, cautions)
    facts = Facts()
    rules: list[CheckedRule] = []
    queries: list[CheckedQuery] = []
    for statement in program.statements:
        if isinstance(statement, Rule):
            if not facts.take(statement):
                rules += names.rule(statement)
        elif isinstance(statement, Query):
            query, rule = names.query(statement)
            if query is not None:
                queries.append(query)
            if rule is not None:
                rules.append(rule)
    for fact in facts.examples():
        names.fact(fact)
    return facts, rules, queries


def _infer(
    catalog: Catalog,
    facts: Facts,
    rules: Sequence[CheckedRule],
    params: Mapping[str, ParamType],
    errors: list[Error],
) -> TypeInference:
    types = TypeInference(catalog, params, errors)
    for rule in rules:
        if rule.head.name not in catalog.relations:
            types.add_relation(rule.head.name, len(rule.head.args))
    for fact in facts.examples():
        types.see_fact(fact)
    by_rules = {rule.head.name for rule in rules}
    for name in facts.atoms:
        if name not in by_rules and not errors:
            types.settle_facts(name)
    for rule in rules:
        types.see(rule)
    if not errors:
        types.settle_lists()
    return types


# -------------------------------------------------------------------------------- schemas


def _schemas(
    catalog: Catalog,
    types: TypeInference,
    rules: Sequence[CheckedRule],
    placed: Mapping[str, tuple[str, ...]],
    errors: list[Error],
) -> dict[str, Schema]:
    """The columns of every relation; an error for each column whose type nothing settles."""
    named = {**names_of_columns([rule.head for rule in rules]), **placed}
    schemas: dict[str, Schema] = {}
    for name in types.columns:
        relation = catalog.relations.get(name)
        if relation is not None and relation.schema is not None:
            schemas[name] = relation.schema
            continue
        kinds = types.column_types(name)
        columns = named.get(name) or tuple(f"c{at}" for at in range(len(kinds)))
        schemas[name] = Schema(name, columns, kinds, relation.span if relation else None)
    if not errors:
        _open_columns(catalog, types, schemas, errors)
    return schemas


def _open_columns(
    catalog: Catalog, types: TypeInference, schemas: Mapping[str, Schema], errors: list[Error]
) -> None:
    """One error for all columns that one declaration would settle."""
    reported: set[int] = set()
    # those that nothing defines first: to declare them may settle the others
    for relation in sorted(catalog.relations.values(), key=lambda r: r.said == "is defined with"):
        name, schema = relation.name, schemas[relation.name]
        if relation.broken or relation.schema is not None:
            continue
        if relation.arity is None:
            message = f"nothing says which columns `{name}` has"
            hint = f"declare them, as in `.decl {name}(x: int, y: symbol)`"
            errors.append(TypeMismatchError(message, relation.span, hint=hint))
        open_here = []
        for at in types.open_columns(name):
            same = types.open_class(name, at)
            if same not in reported:
                reported.add(same)
                open_here.append(at)
        if open_here:
            errors.append(_open_error(relation, schema, open_here))


def _open_error(
    relation: CatalogRelation, schema: Schema, open_here: Sequence[int]
) -> TypeMismatchError:
    declare = ", ".join(f"{c}: {k}" for c, k in zip(schema.columns, schema.types, strict=True))
    names = either([f"`{schema.columns[at]}`" for at in open_here], "and")
    of = f"the column {names} of `{schema.name}` has"
    if len(open_here) > 1:
        of = f"the columns {names} of `{schema.name}` have"
    return TypeMismatchError(
        f"nothing says which type {of}",
        relation.span,
        hint=f"declare it, as in `.decl {schema.name}({declare})`",
    )


def _last(program: Program) -> str | None:
    for statement in reversed(program.statements):
        if isinstance(statement, Rule):
            return statement.heads[0].name
    return None
