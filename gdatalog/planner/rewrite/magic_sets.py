"""Magic sets: rewrites a program so that only the rows that one relation needs are evaluated.

Strata are rewritten from the wanted relation downwards. Each place that reads a derived relation
demands some of its rows, by the columns bound there (`passing.py`). When all demand on a relation
is known, its own rules are rewritten (`demanded_rules.py`), and demand rows in turn.

    path(x, z) <- E(x, z) ; path(x, y), E(y, z).    ?- path(1, y).

becomes, since both rules pass the 1 on unchanged,

    path[cf](z) <- E(1, z).    path[cf](z) <- path[cf](y), E(y, z).    ?1(y) <- path[cf](y).

A relation that is needed in full is evaluated in full, and with it all relations it depends on; an
attempt that finds one starts again with that known. After some attempts the next ones find all such
relations, so that long programs take a fixed number. Where magic sets would make a negation or an
aggregate part of a recursion, the negated or aggregated relation is evaluated in full.

"""

from __future__ import annotations

from collections.abc import Mapping

from gdatalog.planner.check import Checked, Stratum
from gdatalog.planner.rewrite.adornments import KnownBindings
from gdatalog.planner.rewrite.demanded_rules import Specialised
from gdatalog.planner.rewrite.passing import read_by
from gdatalog.planner.rewrite.recursion_cost import World, Worth
from gdatalog.planner.rewrite.rewriting import Attempt, Measured
from gdatalog.records import dataclass, field

MOST_STARTED = 8  # attempts that end at the first relation needed in full
MOST_ATTEMPTS = 16  # attempts in all; then magic sets are not used


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
    stratum = next((each for each in checked.strata if wanted in each.relations), None)
    if stratum is None or stratum.recursive:
        return MagicProgram(None)
    worth = Worth(checked, world)
    for through in (True, False):
        full: dict[str, str] = {}
        for number in range(MOST_ATTEMPTS):
            attempt = Attempt(checked, wanted, world, worth, forced, through, full)
            if _completed(attempt, number < MOST_STARTED):
                break
        else:
            return MagicProgram(None, {}, _notes(full))
        found = attempt.program() if attempt.asked else None
        if found is not None:
            measured = () if forced else tuple(attempt.measured(found))
            return MagicProgram(found, attempt.given, _notes(full), measured)
        if not attempt.asked:
            break
    return MagicProgram(None, {}, _notes(full))


def _notes(full: Mapping[str, str]) -> tuple[str, ...]:
    return tuple([f"{name} is evaluated in full: {why}" for name, why in full.items() if why])


def _completed(attempt: Attempt, only_first: bool) -> bool:
    """Whether a pass over the strata found no other relation that is needed in full; the next
    attempt knows those found. `only_first`: the pass ends at the first stratum with some."""
    known, full = len(attempt.full), attempt.full
    passed: list[Stratum] = []
    for stratum in reversed(attempt.checked.strata):
        attempt.at_hand = stratum
        if attempt.wanted in stratum.relations:
            for rule in stratum.rules:
                attempt.add(rule, rule.head.name, KnownBindings())
        elif any(name in attempt.asks and name not in full for name in stratum.relations):
            Specialised(attempt, stratum).run()
            passed.append(stratum)
        if attempt.in_full:
            _add_with_all_below(attempt)
            if only_first:
                break
    if len(full) == known:
        return True
    # views above that read only these: a whole chain is found at once
    for stratum in reversed(passed):
        alone = not any(map(attempt.derived, read_by(stratum.rules)))
        for name in stratum.relations if alone else ():
            if () in attempt.asks.get(name, ()):
                full.setdefault(name, "")
    return False


def _add_with_all_below(attempt: Attempt) -> None:
    """Adds relations that turned out to be needed in full, and all relations they depend on."""
    home, full = attempt.worth.home, attempt.full
    waiting = list(attempt.in_full.items())
    attempt.in_full.clear()
    while waiting:
        name, why = waiting.pop()
        stratum = home.get(name)
        if stratum is None or name in full:
            continue
        full |= {**dict.fromkeys(stratum.relations, ""), name: why}
        waiting += [(other, "") for other in read_by(stratum.rules) if other not in full]
