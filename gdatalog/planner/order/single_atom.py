"""Plans for a single atom: its column order without a search."""

from __future__ import annotations

from gdatalog.planner.order.formula import TINY, Formula
from gdatalog.planner.order.pattern import PatternAtom, QueryPattern, bits
from gdatalog.planner.order.states import Order

MOST_ORDERED = 5  # most variables for which all orders are compared


def single_order(pattern: QueryPattern, rows: float) -> Order | None:
    """The order of a body with one atom, for `rows` outer rows; None if values are also generated
    or aggregated, or if one row is enough."""
    if pattern.given or pattern.aggregates or not (pattern.bag or pattern.live):
        return None
    (atom,) = pattern.atoms
    formula = Formula(pattern)
    path = pattern.closed(pattern.outer, pattern.everything)
    columns = _in_order(pattern, atom, path)
    order = Order()
    scale = rows / max(formula.rows(pattern.outer), TINY)
    for number, at in enumerate(columns, 1):
        wider = path | 1 << at
        known, mine = atom.mask & path, atom.mask & wider
        before = formula.rows(path) * scale
        lists = formula.paths(atom, mine) / max(TINY, formula.paths(atom, known) if known else 1.0)
        last = number == len(columns) and pattern.bag and not pattern.live >> at & 1
        order.work += (
            before if last and number > 1 else before * min(lists, formula.roots(atom, at))
        )
        order.rank[pattern.names[at]] = number
        order.estimates[pattern.names[at]] = formula.rows(wider, path) * scale
        path = pattern.closed(wider, pattern.everything, 1 << at)
        formula.rows(path, wider)
    return order


def _in_order(pattern: QueryPattern, atom: PatternAtom, path: int) -> list[int]:
    """The variables that the atom binds, in their order."""
    left = [at for at in atom.columns if not (path | pattern.computed) >> at & 1]
    values = {at: atom.degrees(at).powers[0] for at in left}
    ranges = pattern.ranges
    limited = sorted(
        (at for at in left if at in ranges), key=lambda at: (ranges[at].share(0) * values[at], at)
    )
    found = limited
    share, wanted = 1.0, atom.size.rows
    for at in limited:
        share *= values[at]
    for at in sorted([at for at in left if at not in ranges], key=lambda at: (values[at], at)):
        if share >= wanted:
            break
        share *= values[at]
        found.append(at)
    asked = [at for at in pattern.outputs if at in values]
    asked += [at for at in bits(pattern.live) if at in values]
    return list(dict.fromkeys((*found, *asked, *left)))
