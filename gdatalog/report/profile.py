"""`Profile`: how a program was evaluated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gdatalog.engine.metrics import Metrics
from gdatalog.report.profile_tree import Evaluated
from gdatalog.report.rule_runs import COLUMNS, round_lines
from gdatalog.report.shown import Shown
from gdatalog.report.tree import ReportNode

if TYPE_CHECKING:
    import pandas as pd

    from gdatalog.engine.context import ExecutionContext
    from gdatalog.result import Result


class Profile(Shown):
    """How a program was evaluated: the tree of `explain`, with actual rows and time.

    Expected bindings stand beside actual ones; a mark shows estimates that were wrong by a factor
    of ten or more. `result` is the answer, `rounds` a pandas DataFrame with each rule's metrics in
    each round of each fixpoint.

    >>> import gdatalog as gd
    >>> db = gd.connect()
    >>> db["E"] = [(1, 2), (2, 3), (3, 1)]
    >>> text = "path(x, y) <- E(x, y). path(x, z) <- path(x, y), E(y, z)."
    >>> db.profile(text, strategy="levelwise").rounds[["rule", "round", "tried", "new"]]
                                     rule  round  tried  new
    0              path(x, y) <- E(x, y).      0      3    3
    1  path(x, z) <- path(x, y), E(y, z).      1      3    3
    2  path(x, z) <- path(x, y), E(y, z).      2      3    3
    3  path(x, z) <- path(x, y), E(y, z).      3      3    0
    """

    title = "gdatalog: a profile"

    @classmethod
    def after(cls, context: ExecutionContext, result: Result | None) -> Profile:
        """The profile of what an evaluation has done so far."""
        metrics, limits = context.metrics, context.limits
        return cls(
            metrics, metrics.seconds, limits.peak, result, context.device.name,
            limits.held, limits.spilled,
        )  # fmt: skip

    def __init__(
        self,
        metrics: Metrics,
        seconds: float,
        peak: int,
        result: Result | None,
        device: str = "cpu",
        held: Mapping[str, int] | None = None,
        spilled: int = 0,
    ) -> None:
        """`held`: final memory by owner; `spilled`: bytes written to temporary files."""
        self.runs = metrics.runs
        self.strata = metrics.strata
        self.device = device
        self.seconds = seconds
        self.peak = peak
        self.result = result
        self._evaluated = Evaluated(metrics, seconds, peak, device, dict(held or {}), spilled)

    def _tree(self) -> ReportNode:
        return self._evaluated.tree()

    @property
    def rounds(self) -> pd.DataFrame:
        """A pandas DataFrame with each rule's metrics in each round of each stratum.

        Columns: `stratum`, `relation` and `rule`; `round`, 0 for the rules before recursion;
        `tried`, the rows that the rule's joins produced, `new`, those that were not known before,
        and `duplicates`, the others; `seconds`; `bytes`, the peak memory; and `executor`. A
        fixpoint without rounds, because it runs for each value or group separately, is one line:
        its `round` is missing and its `rule` names the strategy.
        """
        import pandas as pd

        lines = [line for stratum in self.strata for line in round_lines(stratum)]
        frame = pd.DataFrame(lines, columns=list(COLUMNS))
        return frame.astype(dict.fromkeys(("round", "tried", "new", "duplicates"), "Int64"))

    def to_dict(self) -> dict[str, Any]:
        """The tree as plain data, with the rows of `rounds`."""
        lines = (line for stratum in self.strata for line in round_lines(stratum))
        rounds = [dict(zip(COLUMNS, line, strict=True)) for line in lines]
        return {**super().to_dict(), "rounds": rounds}
