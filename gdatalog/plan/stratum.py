"""The plan of a stratum: its strategy, its fallbacks, and the plans of its rules.

`engine/strata.py` and `engine/fixpoint/strategies.py` build a `StratumPlan`, the engine runs it
strategy by strategy, `explain` prints it, and `profile` reports which strategies ran. It is plain
data: frozen, comparable, printable, checked (`tests/plan_check.py`).

If sizes are unknown before the run, a strategy has a `Fallback`. Its conditions are counts of rows,
rounds or bytes, never times, so that a program runs the same way each time.
"""

from __future__ import annotations

from gdatalog.plan import RulePlan
from gdatalog.plan.placement import OnWorkers, Shared
from gdatalog.plan.tuning import Condition, Unsuited, When
from gdatalog.records import dataclass

# ------------------------------------------------------------------------------- strategies


@dataclass(frozen=True, slots=True)
class Fallback:
    """If one of these conditions is met, another strategy restarts the stratum."""

    when: tuple[When, ...]
    to: Strategy

    def on(self, kind: type[Condition]) -> Condition | None:
        """Its condition of this kind."""
        return next((each for each in self.when if isinstance(each, kind)), None)

    def __str__(self) -> str:
        return " or ".join(map(str, self.when))


@dataclass(frozen=True, slots=True)
class Once:
    """Each rule runs once: the stratum is not recursive."""

    fallback: None = None

    def __str__(self) -> str:
        return "once"


@dataclass(frozen=True, slots=True)
class Copy:
    """No rule runs: the relation equals another one, possibly without constant columns."""

    relation: str
    fallback: Fallback | None = None

    def __str__(self) -> str:
        return f"a copy of {self.relation}"


@dataclass(frozen=True, slots=True)
class SemiNaive:
    """Rounds: in each, rules read the rows derived since their last turn.

    `projections`: where rules are split to project variables away early. `on_host`: on the CPU,
    though there is a device.
    """

    projections: tuple[str, ...] = ()
    fallback: Fallback | None = None
    on_host: bool = False

    def __str__(self) -> str:
        return "semi-naive rounds on the CPU" if self.on_host else "semi-naive rounds"


@dataclass(frozen=True, slots=True)
class BitmapRounds:
    """Rounds on a device that keeps one bit for each possible row."""

    projections: tuple[str, ...] = ()
    fallback: Fallback | None = None

    def __str__(self) -> str:
        return "semi-naive rounds on the device, with one bit for each possible row"


@dataclass(frozen=True, slots=True)
class Key:
    """A relation's column, by number and name."""

    relation: str
    column: int
    name: str

    def __str__(self) -> str:
        return f"{self.name} of {self.relation}"


@dataclass(frozen=True, slots=True)
class Partitioned:
    """A fixpoint for each value of one column of each relation, by a compiled worklist.

    `counted`: only the number of rows of each value is needed.
    """

    keys: tuple[Key, ...]
    counted: bool = False
    fallback: Fallback | None = None

    def __str__(self) -> str:
        text = f"a fixpoint for each {', '.join(map(str, self.keys))}"
        return f"{text}, whose rows are only counted" if self.counted else text


@dataclass(frozen=True, slots=True)
class InPlaceLattice:
    """Compiled loops improve the best value of each group in place, without rounds."""

    fallback: Fallback | None = None

    def __str__(self) -> str:
        return "best values are improved in place"


@dataclass(frozen=True, slots=True)
class Worklist:
    """One compiled worklist follows row after row, without rounds."""

    fallback: Fallback | None = None

    def __str__(self) -> str:
        return "one worklist"


@dataclass(frozen=True, slots=True)
class Incremental:
    """Keeps the relations, and adds the rows that follow from new rows of the `changed` relations,
    or from new rules and facts. The stratum is monotone in these."""

    changed: tuple[str, ...]
    fallback: Fallback | None = None

    def __str__(self) -> str:
        news = f"new rows of {', '.join(self.changed)}" if self.changed else "new rules and facts"
        return f"incremental maintenance: what follows from {news} is added"


@dataclass(frozen=True, slots=True)
class Again:
    """The stratum is planned again, and evaluated in full."""

    fallback: Fallback | None = None

    def __str__(self) -> str:
        return "planned anew, and evaluated with all rows"


RecursionStrategy = SemiNaive | BitmapRounds | Partitioned | InPlaceLattice | Worklist | Incremental
Strategy = Once | Copy | RecursionStrategy | Again


# -------------------------------------------------------------------------------- rewrites


@dataclass(frozen=True, slots=True)
class DictionaryCodes:
    """Dictionary codes replace the keys of these columns (relation.column)."""

    columns: tuple[str, ...]

    def __str__(self) -> str:
        return f"dictionary codes stand for the keys of {', '.join(self.columns)}"


@dataclass(frozen=True, slots=True)
class LinearRule:
    """A closure by doubling (`p(x, y), p(y, z)`) becomes a linear rule, over the rows that the
    relation has without recursion (`first`)."""

    relation: str
    first: str

    def __str__(self) -> str:
        return f"{self.relation} is made linear: {self.first} is what it has without recursion"


@dataclass(frozen=True, slots=True)
class OnTheHost:
    """The CPU runs a recursion, because its relations do not fit this device, or because a rule
    reads only the numbers of a relation's rows (`numbers`), which is little data."""

    device: str
    numbers: bool = False

    @property
    def reason(self) -> str:
        if self.numbers:
            return "it reads only how many rows there are"
        return f"its relations do not fit {self.device}"

    def __str__(self) -> str:
        return f"on the CPU: {self.reason}"


Rewrite = DictionaryCodes | LinearRule | OnTheHost


# ------------------------------------------------------------------------------------ plans


@dataclass(frozen=True, slots=True)
class StratumPlan:
    """How one stratum is evaluated, and where.

    `rules`: the plans of the `main` strategy: one for each rule without recursive atoms; for each
    recursive rule, one for the new rows of each recursive atom. `before`: plans that run once
    before the first strategy.

    The stratum runs on this machine's `device`, on several devices (`shared`), or on a cluster's
    `workers`. `why`: the reason for the device, where the planner chose between the CPU and a GPU.
    """

    relations: tuple[str, ...]
    recursive: bool
    strategy: Strategy
    rules: tuple[RulePlan, ...] = ()
    before: tuple[RulePlan, ...] = ()
    rewrites: tuple[Rewrite, ...] = ()
    device: str = "cpu"
    shared: Shared | None = None
    workers: OnWorkers | None = None
    why: str | None = None

    @property
    def chosen(self) -> str | None:
        """The device and why it was chosen, if it was."""
        where = "the CPU" if self.device == "cpu" else self.device
        return None if self.why is None else f"on {where}: {self.why}"

    @property
    def placement(self) -> str:
        return str(self.workers or self.shared or f"on {self.device}")

    @property
    def strategies(self) -> tuple[Strategy, ...]:
        """The first strategy, and its fallbacks in order."""
        found: list[Strategy] = []
        strategy: Strategy | None = self.strategy
        while strategy is not None:
            found.append(strategy)
            strategy = None if strategy.fallback is None else strategy.fallback.to
        return tuple(found)

    @property
    def main(self) -> Strategy:
        """The strategy for large data, to which `rules` belong."""
        ways = self.strategies
        return next((way for way in ways if isinstance(way, Partitioned | InPlaceLattice)), ways[0])

    def lines(self, whole: bool = False) -> tuple[str, ...]:
        """A line for each rewrite and strategy; `whole`: including the fallback for expressions
        that compiled loops cannot compute."""
        parts = [] if self.chosen is None else [self.chosen]
        parts += map(str, self.rewrites)
        starts = ""  # when the strategy does
        for strategy in () if self.main == Once() else self.strategies:
            parts.append(f"{starts}{strategy}")
            if strategy.fallback is None or (not whole and strategy.fallback.on(Unsuited)):
                break
            starts = f"{strategy.fallback}: "
        main = self.main
        return (*parts, *(main.projections if isinstance(main, SemiNaive | BitmapRounds) else ()))
