"""Names: relations, functions, aggregates, parameters, scopes."""

from __future__ import annotations

import pytest
from checked import check

from gdatalog.errors import Error
from gdatalog.parser import parse, syntax
from gdatalog.parser.syntax import (
    Aggregate,
    And,
    Atom,
    Compare,
    Const,
    Distinct,
    FunctionCall,
    HeadAggregate,
    Literal,
    Not,
    Param,
    Program,
    Range,
    Rule,
    Var,
)
from gdatalog.planner.check import CheckedRule
from gdatalog.planner.check.walk import variables
from tests.tables import checked, said, schema, table

E = "e(1, 2).\n"


def rule(text: str, **params: str) -> CheckedRule:
    """The only rule of a program over the relation e."""
    program = checked(E + text, params=params)  # type: ignore[arg-type]
    [stratum] = program.strata
    [only] = stratum.rules
    return only


def items(text: str) -> tuple[Literal, ...]:
    body = rule(text).body
    return body.items if isinstance(body, And) else (body,)  # type: ignore[return-value]


@pytest.mark.parametrize(("program", "says"), table("names"))
def test_says(program: str, says: str) -> None:
    assert said(program) == says


def test_a_relation_that_is_not_there_is_said_once_of_a_statement() -> None:
    told = said("n(count()) <- t(a, b), t(b, c), t(a, c). m(x) <- t(x, _).")
    assert told.count("there is no relation `t`") == 2


def test_functions_distinct_and_range_stand_apart_from_atoms() -> None:
    found = items(
        "p(x) <- e(x, y), contains('a', 'b'), distinct(x, y), 2 < i = range(0, y).".replace(
            "'", '"'
        )
    )
    assert found[1:] == (
        syntax.Test(FunctionCall("contains", (Const("symbol", "a"), Const("symbol", "b")))),
        Distinct((Var("x"), Var("y"))),
        Compare(Const("int", 2), (("<", Var("i")),)),
        Range(Var("i"), Const("int", 0), Var("y"), Const("int", 1)),
    )


def test_a_relation_wins_over_a_function_of_its_name() -> None:
    program = checked(".decl contains(x: int) contains(1). p(x) <- contains(x).")
    assert program.strata[0].rules[0].body == Atom("contains", (Var("x"),))


def test_known_relations_and_aliases() -> None:
    program = checked("p(itof(x)) <- data(x).", {"data": schema("data", n="int")})
    assert program.strata[0].rules[0].head.args == (FunctionCall("to_float", (Var("x"),)),)
    assert program.schemas["data"].columns == ("n",)


def test_each_wildcard_is_a_variable_of_its_own() -> None:
    [atom] = items("p() <- e(_, _).")
    assert isinstance(atom, Atom)
    first, second = (arg.name for arg in atom.args if isinstance(arg, Var))
    assert first != second
    assert first.startswith("_~")


def test_double_negation_cancels() -> None:
    assert items("p(x) <- !!e(x, _y).") == (Atom("e", (Var("x"), Var("_y"))),)
    assert isinstance(items("p(x) <- e(x, _), !!!e(_, x).")[1], Not)


def test_a_variable_only_in_a_negation_is_local_to_it() -> None:
    _, first, _ = items("p(x) <- e(x, y), !e(y, z), y > 1.")
    assert list(variables(first)) == ["y", "z~1"]


def test_branches_of_or_do_not_see_each_other() -> None:
    body = rule("p(x) <- e(x, _), !e(_, y) ; e(x, y), y > 1.").body
    assert body is not None
    names = list(variables(body))
    assert "y" in names
    assert any(name.startswith("y~") for name in names)


def test_an_aggregate_shares_what_the_rule_binds_without_it() -> None:
    aggregate = _aggregate("p(x, n) <- e(x, _), n = count : { e(x, y), y > x }.")
    assert aggregate.exports == ()
    assert [name.partition("~")[0] for name in aggregate.locals] == ["y"]
    assert "x" in variables(aggregate)


def test_aggregates_do_not_see_each_others_variables() -> None:
    one, other = items("p(n, m) <- n = count : { e(x, _) }, m = sum x : { e(x, _) }.")
    assert not variables(one).keys() & variables(other).keys()


def test_min_and_max_export_what_is_used_outside() -> None:
    aggregate = _aggregate("p(i, m) <- m = max s : { e(i, s) }.")
    assert aggregate.exports == ("i",)
    assert aggregate.locals == ("s~1", "i")


def test_each_branch_of_or_may_export_the_same_variable() -> None:
    text = "p(i) <- (2 = max s : { e(i, s) } ; 2 = min s : { e(i, s) })."
    body = rule(text).body
    assert body is not None
    assert [aggregate.exports for aggregate in _aggregates(body)] == [("i",), ("i",)]


def test_nested_scopes() -> None:
    aggregate = _aggregate(
        "p(x, n) <- e(x, _), n = count : { e(y, x), m = max z : { e(y, z) }, !e(m, w) }."
    )
    inner = next(part for part in _aggregates(aggregate.body))
    assert [name for name in variables(inner) if name not in inner.locals] == [
        name for name in aggregate.locals if name.startswith("y~")
    ]


def test_aggregates_in_heads() -> None:
    head = rule("p(x, 2 * sum(y) + 1, max(x, y)) <- e(x, y).").head
    assert head.args[1] == FunctionCall(
        "+",
        (
            FunctionCall("*", (Const("int", 2), HeadAggregate("sum", (Var("y"),)))),  # type: ignore[arg-type]
            Const("int", 1),
        ),
    )
    assert head.args[2] == FunctionCall("max", (Var("x"), Var("y")))


def test_an_aggregate_with_a_body_moves_from_the_head_to_the_body() -> None:
    found = rule("p(x, max s : { e(x, s) }) <- e(x, _).")
    assert isinstance(found.body, And)
    lifted = found.body.items[1]
    assert isinstance(lifted, Compare)
    assert lifted.first == found.head.args[1]
    assert checked(E + "p(x, max s : { e(x, s) }) <- e(x, _).").schemas["p"].columns == ("x", "max")


def test_several_heads_become_several_rules() -> None:
    program = checked(E + "p(x), q(y, x) <- e(x, y).")
    assert sorted(s.rules[0].head.name for s in program.strata) == ["p", "q"]
    assert program.last == "p"


def test_queries() -> None:
    program = checked(E + "?- e(x, y), !e(y, z), n = count : { e(_, w) }. ?- e(1, _). ?- e.")
    shown, yes, whole = program.queries
    assert program.schemas[shown.relation].columns == ("x", "y", "n")
    assert program.schemas[yes.relation].arity == 0
    assert whole.relation == "e"


def test_facts_keep_their_constants_and_parameters() -> None:
    program = checked("e(1, $n). e(2, 1 + 2).", params={"n": "int"})
    assert program.facts["e"] == (Atom("e", (Const("int", 1), Param("n"))),)
    [stratum] = program.strata
    assert stratum.rules[0].body is None
    assert program.param_types == {"n": "int"}


def test_qualifiers_of_a_declaration_are_directives() -> None:
    program = checked(".decl e, f(x: int) input output\n.output f")
    assert [(d.kind, d.names) for d in program.directives] == [
        ("output", ("f",)),
        ("input", ("e", "f")),
        ("output", ("e",)),
    ]


def test_a_declaration_may_be_repeated() -> None:
    program = checked(".decl e(x: number)\n.decl e(x: int)\ne(1).")
    assert program.schemas["e"].types == ("int",)


def test_types_may_be_named_before_what_they_are_made_of() -> None:
    program = checked(".type A = B | C\n.type B <: C\n.type C = unsigned\n.decl e(x: A)\ne(1).")
    assert program.schemas["e"].types == ("int",)


def test_data_that_is_not_as_declared() -> None:
    known = {"e": schema("e", a="int", b="symbol")}
    assert said(".decl e(x: int, y: int)", known) == (
        "p.dl:1:1: type error: `e` is declared as `e(x: int, y: int)`, but its data is "
        "`e(a: int, b: symbol)`\n"
        " 1 | .decl e(x: int, y: int)\n"
        "   | ^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  hint: change the declaration, or load the data with these types"
    )
    assert said("p(x) <- e(x).", known) == (
        "p.dl:1:9: type error: `e` has 1 argument here, but 2 columns there\n"
        " 1 | p(x) <- e(x).\n"
        "   |         ^^^^\n"
        "  note: `e` has data with 2 columns, `e(a: int, b: symbol)`\n"
        "  hint: write `_` for a column that does not matter"
    )


def test_all_errors_come_together() -> None:
    with pytest.raises(Error) as caught:
        checked(
            E + 'p(x, z) <- e(x, _).\nq(x) <- e(x, "a").\nr(x) <- f(x).\ns(x) <- e(x, _), !s(x).'
        )
    assert [error.kind for error in caught.value.all] == [
        "unsafe rule",
        "type error",
        "name error",
        "not stratified",
    ]


def test_a_flood_of_errors_is_cut() -> None:
    with pytest.raises(Error) as caught:
        checked("".join(f"p(x) <- missing{at}(x).\n" for at in range(250)))
    assert len(caught.value.all) == 250
    shown = str(caught.value).split("\n\n")
    assert len(shown) == 11
    assert shown[-1] == "and 240 more errors"


def test_deep_programs() -> None:
    expr = Var("x")
    for _ in range(190):
        expr = FunctionCall("+", (expr, Const("int", 1)))  # type: ignore[assignment]
    negated: Literal = Atom("e", (Var("x"),))
    for at in range(60):
        negated = Not(And((Atom("e", (Var("x"),)), Atom("e", (Var(f"y{at}"),)), negated)))
    fact = Rule((Atom("e", (Const("int", 1),)),), None)
    deep = Rule((Atom("p", (expr,)),), And((Atom("e", (Var("x"),)), negated)))
    assert check(Program((fact, deep)), {}).schemas["p"].types == ("int",)


def test_many_facts_and_rules() -> None:
    facts = "".join(f'f({at}, "{at}", {at}).\n' for at in range(3000))
    rules = "".join(f"r{at + 1}(x, y) <- r{at}(x, z), f(z, _, y), x < y.\n" for at in range(300))
    program = check(
        parse(
            facts
            + 'f(1, "a", 2.5).\nr0(x, x) <- f(_, _, x).\n'
            + rules.replace("f(z, _, y)", "f(_, _, z), f(_, _, y)")
        ),
        {},
    )
    assert program.schemas["f"].types == ("int", "symbol", "float")
    assert program.facts["f"][7].args[2] == Const("float", 7.0)
    assert len(program.strata) == 301


def _aggregates(literal: Literal) -> list[Aggregate]:
    from gdatalog.planner.check.walk import walk

    return [part for part in walk(literal) if isinstance(part, Aggregate)]


def _aggregate(text: str) -> Aggregate:
    body = rule(text).body
    assert body is not None
    return _aggregates(body)[0]
