"""`Profile`: what evaluating a program did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gdatalog.engine.metrics import Metrics
from gdatalog.report.profile_tree import Evaluated
from gdatalog.report.rounds import COLUMNS, round_lines
from gdatalog.report.shown import Shown
from gdatalog.report.tree import ReportNode

if TYPE_CHECKING:
    import pandas as pd


class Profile(Shown):
    """What evaluating a program did: the tree that `explain` shows, with rows and time beside it.

    Expected bindings stand beside those that came; where they are wrong by ten times or more a mark
    says so. `result` is the answer itself, `rounds` a pandas DataFrame with what each rule did in
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

    def __init__(
        self,
        metrics: Metrics,
        seconds: float,
        peak: int,
        result: Any,
        device: str = "cpu",
        held: Mapping[str, int] | None = None,
        spilled: int = 0,
    ) -> None:
        """`held`: what was held in the end, by name; `spilled`: bytes in temporary files."""
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
        """A pandas DataFrame: what each rule did in each round of each stratum.

        Its columns are `stratum`, `relation` and `rule`; `round`, where 0 is what comes before
        recursion; `tried`, the rows that came out of the rule's joins, `new`, those of them that
        were not there before, and `duplicates`, the others; `seconds`; `bytes`, the most that was
        held meanwhile; and `executor`. A fixpoint that has no rounds, for it is run for each value
        or group by itself, is one line, whose `round` is missing and whose `rule` says how.
        """
        import pandas as pd

        lines = [line for stratum in self.strata for line in round_lines(stratum)]
        frame = pd.DataFrame(lines, columns=list(COLUMNS))
        return frame.astype(dict.fromkeys(("round", "tried", "new", "duplicates"), "Int64"))

    def to_dict(self) -> dict[str, Any]:
        """The tree as plain data, and beside it all rounds: what `rounds` has, line by line."""
        lines = (line for stratum in self.strata for line in round_lines(stratum))
        rounds = [dict(zip(COLUMNS, line, strict=True)) for line in lines]
        return {**super().to_dict(), "rounds": rounds}
