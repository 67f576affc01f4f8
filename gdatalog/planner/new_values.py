"""Which rules of a recursion make new values, so that it may go on for ever.

Values flow from columns of the recursive relations to columns of heads. A rule makes new values if
a head's argument computes on such a value, and the result can flow back to where it came from. A
guard such as `x < 1000` may bound them; nobody evaluates guards here. Columns that keep the best
value of each group do not count: they add no rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gdatalog.parser import syntax as s
from gdatalog.planner.check import CheckedRule, Stratum
from gdatalog.planner.check import walk as w
from gdatalog.planner.check.walk import alternatives_of

Column = tuple[str, int]  # of a relation
Flow = tuple[Column, bool]  # from a column; whether it computes

# Functions with few results, whatever their arguments.
OF_FEW_RESULTS = frozenset(
    {"contains", "match", "starts_with", "land", "lor", "lxor", "lnot", "month", "day"}
)
# Functions that make finitely many values when they are applied to their results again.
CLOSED = frozenset(
    {"min", "max", "abs", "bnot", "floor", "ceil", "to_int", "to_float"}
    | {"upper", "lower", "substr", "split_part"}
)


def makers_of_values(stratum: Stratum) -> tuple[CheckedRule, ...]:
    """The rules of a recursive stratum that may make new values in each round."""
    flows: dict[Column, set[Column]] = {}
    made: list[tuple[Column, Column, CheckedRule]] = []
    best: set[Column] = set()
    for rule in stratum.rules if stratum.recursive else ():
        for parts in () if rule.body is None else alternatives_of(rule.body):
            known = _variables(parts, stratum.relations)
            for at, arg in enumerate(rule.head.args):
                target = (rule.head.name, at)
                if isinstance(arg, s.HeadAggregate):
                    best.add(target)
                for source, computed in _flows(arg, known):
                    flows.setdefault(source, set()).add(target)
                    if computed:
                        made.append((source, target, rule))
    reach = _Reach(flows)
    found: list[CheckedRule] = []
    for source, target, rule in made:
        cycle = {each for each in reach.of(target) if source in reach.of(each)}
        if not cycle <= best and not any(rule is other for other in found):
            found.append(rule)
    return tuple(found)


class _Reach:
    """The columns that values of a column flow to, including itself."""

    def __init__(self, flows: dict[Column, set[Column]]) -> None:
        self._flows = flows
        self._found: dict[Column, set[Column]] = {}

    def of(self, column: Column) -> set[Column]:
        found = self._found.get(column)
        if found is None:
            found, waiting = {column}, [column]
            while waiting:
                new = self._flows.get(waiting.pop(), set()) - found
                found |= new
                waiting += new
            self._found[column] = found
        return found


def _variables(parts: Sequence[s.Literal], recursive: Sequence[str]) -> dict[str, set[Flow]]:
    """What flows into the variables of a conjunction; nothing into those that data bind."""
    known: dict[str, set[Flow]] = {}
    data: set[str] = set()
    equations: list[tuple[s.Expr, s.Expr]] = []
    solved: dict[str, set[Flow]] = {}  # variables of `p(x + 1)`
    for part in parts:
        match part:
            case s.Atom(name, args) if name in recursive:
                for at, arg in enumerate(args):
                    plain = isinstance(arg, s.Var)
                    for variable in w.variables(arg):
                        into = known if plain else solved
                        into.setdefault(variable, set()).add(((name, at), not plain))
            case s.Atom():
                data.update(w.variables(part))
            case s.Member(item=s.Var(name)):
                data.add(name)
            case s.Compare(first, rest):
                sides = [first, *(side for _, side in rest)]
                pairs = zip(sides, rest, strict=False)
                equations += [(left, right) for left, (op, right) in pairs if op == "="]
            case s.Range(item, start, stop, step):
                ends = s.FunctionCall("+", (start, stop, step))
                equations.append((item, ends))
    for variable, flows in solved.items():
        known.setdefault(variable, flows)
    known |= {name: set() for name in data}
    while equations:
        left = [pair for pair in equations if not _solve(*pair, known)]
        if len(left) == len(equations):
            break
        equations = left
    return known


def _solve(left: s.Expr, right: s.Expr, known: dict[str, set[Flow]]) -> bool:
    """Takes over what flows into the one unknown variable of an equation; returns whether no
    variable is unknown afterwards."""
    unknown = [name for name in _outer(left, right) if name not in known]
    if len(unknown) > 1:
        return False
    if unknown:
        (name,) = unknown
        alone = next((o for side, o in ((left, right), (right, left)) if _is(side, name)), None)
        expr = s.FunctionCall("+", (left, right)) if alone is None else alone
        known[name] = set(_flows(expr, known))
    return True


def _is(side: s.Expr, name: str) -> bool:
    return isinstance(side, s.Var) and side.name == name


def _outer(*sides: s.Expr) -> frozenset[str]:
    """The variables of expressions that aggregates do not bind themselves."""
    return w.names_in(sides).difference(*(part.locals for part in w.all_of(s.Aggregate, *sides)))


def _flows(
    expr: s.Expr | s.HeadAggregate, known: dict[str, set[Flow]], computed: bool = False
) -> Iterator[Flow]:
    """What flows into the value of an expression."""
    match expr:
        case s.Var(name):
            yield from ((column, computed or before) for column, before in known.get(name, ()))
            return
        case s.FunctionCall(name, args):
            bounded = name in ("%", "band") and any(isinstance(arg, s.Const) for arg in args[1:])
            if name in OF_FEW_RESULTS or bounded:
                return
            computed = computed or not (name in CLOSED or (name == "-" and len(args) == 1))
        case s.Chain() | s.Aggregate():
            computed = True
    for part in w.children(expr):
        yield from _flows(part, known, computed)  # type: ignore[arg-type]  # literals have variables, too
