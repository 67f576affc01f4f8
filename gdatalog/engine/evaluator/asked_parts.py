"""Views of which parts are asked for again and again, until the whole view is cheaper.

A question for a part of a recursive view derives only that part (magic sets). Each such question
counts as the rows that it derives, and a fixed number of others. Once they count as more than the
data below the view, the whole view is evaluated and kept: later questions look rows up, and changes
maintain it. If it has many more rows than the questions have counted as, its evaluation is given
up, and tried again when they count as twice as many. So both together take a small multiple of the
less of the two. Nothing depends on a clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gdatalog.engine.compiler.compiled import Demanded, PlannedProgram
from gdatalog.engine.device import CPU
from gdatalog.engine.evaluator.evaluator import Evaluator
from gdatalog.engine.evaluator.results import MadeOf, Read, StratumResult
from gdatalog.engine.fixpoint.lattice_rounds import monotone
from gdatalog.errors import Error, EvaluationError, MemoryLimitError
from gdatalog.limits import OverBudget
from gdatalog.planner.check import Stratum
from gdatalog.planner.rewrite.adornments import asked_for, plain
from gdatalog.records import dataclass
from gdatalog.settings import Thresholds
from gdatalog.storage.relation import Relation

ASKED = " in parts"  # follows the names of views in the key of a result


@dataclass(slots=True)
class AskedParts(StratumResult):
    """Questions for parts of `views` since their data has changed in such a way that they would be
    evaluated anew; `made_of` and `below` are of all strata of the views and below.

    `times` and `rows`: how many, and what they have derived. `least`: how many rows they have to
    count as before the views are evaluated. `whole`: the views have been evaluated.
    """

    views: tuple[str, ...] = ()
    times: int = 0
    rows: int = 0
    least: int = 0
    whole: bool = False

    @property
    def note(self) -> str:
        """What `explain` says once the views have been evaluated."""
        names, times = " and ".join(self.views), f"{self.times:,} time{'s' * (self.times != 1)}"
        whole = "the whole view is" if len(self.views) == 1 else "the whole views are"
        part = "its part" if len(self.views) == 1 else "their parts"
        return f"{names} asked {times} for {part}: {self.rows:,} rows; {whole} evaluated"

    def counted(self, thresholds: Thresholds) -> int:
        """How many rows the questions count as."""
        return self.rows + self.times * thresholds.part_asked

    def count(self, known: Mapping[str, Relation]) -> None:
        """Counts a question; `known`: what its program has evaluated."""
        self.times += 1
        self.rows += sum(
            relation.at_most
            for name, relation in known.items()
            if asked_for(name) and not name.endswith("?")
        )

    def evaluated(self, evaluator: Evaluator) -> bool:
        """Evaluates the views, if the questions were many enough; returns whether it did."""
        limits, thresholds = evaluator.context.limits, evaluator.context.thresholds
        counted = self.counted(thresholds)
        if counted < self.least:
            return False
        budget = None
        try:
            with (
                limits.account.restoring(OverBudget, Error),
                limits.within(thresholds.whole_view_share * counted) as budget,
            ):
                for name in self.views:
                    evaluator.relation(name)
        except OverBudget as error:
            if error.budget is not budget:
                raise
        except (EvaluationError, MemoryLimitError):
            pass  # of rows that nobody has asked for
        else:
            self.whole = True
            return True
        self.least = 2 * counted
        return False


def asked_parts(evaluator: Evaluator, demanded: Demanded | None) -> AskedParts | None:
    """The questions so far for parts of the views that a rewritten program restricts; None if these
    are not kept, or not recursive."""
    context, program = evaluator.context, evaluator.program
    elsewhere = context.device is not CPU or context.cluster is not None or context.later
    if elsewhere or demanded is None or demanded.planned is None:
        return None
    homes = program.homes
    names = sorted({plain(name) for name in demanded.planned.homes if asked_for(name)} & {*homes})
    views = tuple(name for name in names if evaluator.keep(homes[name].relations))
    if context.settings.magic_sets != "auto" or not any(homes[name].recursive for name in views):
        return None
    strata = _strata_below(program, views)
    made_of = MadeOf.together(map(evaluator.made_of, strata))
    below = _data_below(evaluator, strata)
    key = tuple(name + ASKED for name in views)
    found = evaluator.results.get(key)
    if not (isinstance(found, AskedParts) and _maintained(found, made_of, below, strata, program)):
        rows = sum(relation.at_most for relation in below.values())
        least = rows + context.thresholds.whole_view_asked * context.thresholds.part_asked
        found = evaluator.results[key] = AskedParts(made_of, {}, {}, views=views, least=least)
    found.below = {read: relation.version for read, relation in below.items()}
    return found


def _strata_below(program: PlannedProgram, views: Sequence[str]) -> list[Stratum]:
    """The strata of views and of all derived relations that they read, in order."""
    found: set[str] = set()
    waiting = [*views]
    while waiting:
        name = waiting.pop()
        if name in program.homes and name not in found:
            found.update(program.homes[name].relations)
            waiting += program.reads(program.homes[name])
    return [s for s in program.checked.strata if not found.isdisjoint(s.relations)]


def _data_below(evaluator: Evaluator, strata: Sequence[Stratum]) -> dict[Read, Relation]:
    """The data that strata are evaluated from."""
    program, stored = evaluator.program, evaluator.stored
    read = {name for stratum in strata for name in program.reads(stratum)} - program.homes.keys()
    own = {name for stratum in strata for name in stratum.relations if name in stored}
    given = {(name, False): evaluator.relation(name) for name in sorted(read)}
    return {**given, **{(name, True): stored[name] for name in sorted(own)}}


def _maintained(
    before: AskedParts,
    made_of: MadeOf,
    below: Mapping[Read, Relation],
    strata: Sequence[Stratum],
    program: PlannedProgram,
) -> bool:
    """Whether the views, had they been evaluated, would only have to follow new rows."""
    if before.made_of != made_of or before.below.keys() != below.keys():
        return False
    since = [below[read].since(version) for read, version in before.below.items()]
    if None in since:
        return False
    return not any(since) or all(monotone(each, program.reads(each)) for each in strata)


def evaluated_since(evaluator: Evaluator, name: str) -> Iterator[str]:
    """What `explain` says about views that a relation reads, and that were evaluated because their
    parts had been asked for."""
    homes = evaluator.program.homes
    read = {each for s in _strata_below(evaluator.program, [name]) for each in s.relations}
    for found in [*evaluator.results.values()]:
        if not isinstance(found, AskedParts) or not found.whole:
            continue
        if read.issuperset(found.views) and all(
            evaluator.is_current(homes[view]) for view in found.views
        ):
            yield found.note
