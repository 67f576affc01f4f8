"""Magic sets: rewrites a program so that only the rows that one relation needs are evaluated.

Strata are rewritten from the wanted relation downwards. Each place that reads a derived relation
demands some of its rows, by the columns bound there (`sideways.py`). When all demand on a relation
is known, its own rules are rewritten (`specialised.py`), and demand rows in turn.

    path(x, z) <- E(x, z) ; path(x, y), E(y, z).    ?- path(1, y).

becomes, since both rules pass the 1 on unchanged,

    path[cf](z) <- E(1, z).    path[cf](z) <- path[cf](y), E(y, z).    ?1(y) <- path[cf](y).

A relation that is needed in full is evaluated in full, and with it all relations it depends on; an
attempt that finds one starts again with that known. Where magic sets would make a negation or an
aggregate part of a recursion, the negated or aggregated relation is evaluated in full.
"""

from __future__ import annotations

from collections.abc import Mapping

from gdatalog.planner.check.checked import Checked
from gdatalog.planner.rewrite.attempt import Attempt, Measured, atoms_read
from gdatalog.planner.rewrite.magic_set_cost import World, Worth
from gdatalog.planner.rewrite.sideways import KnownBindings
from gdatalog.planner.rewrite.specialised import Specialised
from gdatalog.records import dataclass, field


@dataclass(frozen=True, slots=True)
class MagicProgram:
    """The rewritten program; the rows of `given` relations are data and facts of others.

    `checked` is None if magic sets are not used. `notes` give the reason for each relation that
    might have been restricted.
    """

    checked: Checked | None
    given: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    measured: tuple[Measured, ...] = ()


def magic_program(
    checked: Checked, wanted: str, world: World, forced: bool = False
) -> MagicProgram:
    """The program rewritten for one of its relations; `forced`: even if that does not pay."""
    stratum = next((s for s in checked.strata if wanted in s.relations), None)
    if stratum is None or stratum.recursive:
        return MagicProgram(None)
    worth = Worth(checked, world)
    notes: tuple[str, ...] = ()
    for through in (True, False):
        full: dict[str, str] = {}
        while True:
            attempt = Attempt(checked, wanted, world, worth, forced, through, full)
            if _rewritten(attempt):
                break
            full |= _with_all_below(checked, attempt.in_full)
        notes = tuple(f"{name} is evaluated in full: {why}" for name, why in full.items() if why)
        if not attempt.asked:
            break
        found = attempt.program()
        if found is not None:
            measured = () if forced else tuple(attempt.measured(found))
            return MagicProgram(found, attempt.given, notes, measured)
    return MagicProgram(None, {}, notes)


def _with_all_below(checked: Checked, names: Mapping[str, str]) -> dict[str, str]:
    """Relations that are evaluated in full, and all relations they depend on."""
    found: dict[str, str] = {}
    home = {name: stratum for stratum in checked.strata for name in stratum.relations}
    waiting = list(names.items())
    while waiting:
        name, why = waiting.pop()
        stratum = home.get(name)
        if stratum is None or name in found:
            continue
        found |= {**dict.fromkeys(stratum.relations, ""), name: why}
        below = {other for rule in stratum.rules for other in atoms_read(rule)}
        waiting += [(other, "") for other in below - found.keys()]
    return found


def _rewritten(attempt: Attempt) -> bool:
    """Whether a pass over the strata completed; otherwise some relation is needed in full."""
    for stratum in reversed(attempt.checked.strata):
        attempt.at_hand = stratum
        if attempt.wanted in stratum.relations:
            for rule in stratum.rules:
                attempt.add(rule, rule.head.name, KnownBindings())
        elif any(name in attempt.asks for name in stratum.relations):
            Specialised(attempt, stratum).run()
        if attempt.in_full:
            return False
    return True
