"""What a program did: each step of its rules, each round of its fixpoints; to print or to read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from gdatalog.engine.ledger import Ledger, RuleRound, RuleRun, StratumTold
from gdatalog.plan.effects import all_steps
from gdatalog.plan.format import format_rule
from gdatalog.plan.nodes import Join, Step
from gdatalog.progress import format_bytes
from gdatalog.report import rule_text

if TYPE_CHECKING:
    import pandas as pd

BARS = "▁▂▃▄▅▆▇█"
WIDEST = 60  # bars of a line
ENDS = 3  # rounds that are shown of a long fixpoint's beginning and end; and its largest ones


class Profile:
    """What evaluating a program did: rows and time, step by step; and the answer itself.

    `rounds` is a pandas DataFrame with what each rule did in each round of each fixpoint.

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

    def __init__(
        self, ledger: Ledger, seconds: float, peak: int, result: Any, device: str = "cpu"
    ) -> None:
        self.runs = ledger.runs
        self.strata = ledger.strata
        self.device = device
        self.seconds = seconds
        self.peak = peak
        self.result = result

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

        columns = ("stratum", "relation", "rule", "round", "tried", "new", "duplicates",
                   "seconds", "bytes", "executor")  # fmt: skip
        lines = [line for told in self.strata for line in _lines(told)]
        frame = pd.DataFrame(lines, columns=list(columns))
        return frame.astype(dict.fromkeys(("round", "tried", "new", "duplicates"), "Int64"))

    def __str__(self) -> str:
        where = "" if self.device == "cpu" else f" on {self.device}"
        held = format_bytes(self.peak)
        lines = [f"{self.seconds:.3f} s in all{where}, {held} held at the most"]
        for told in self.strata:
            if told.stratum.recursive:
                lines += _stratum(told)
        for run in self.runs:
            lines += self._run(run)
        return "\n".join(lines)

    __repr__ = __str__

    def _run(self, run: RuleRun) -> Iterator[str]:
        share = run.seconds / self.seconds if self.seconds else 0.0
        yield f"{run.plan.relation}: {run.rows:,} rows in {run.seconds:.3f} s ({share:.0%})"
        if run.left is not None:
            yield f"  on the CPU: {run.left}"
        several = len(run.plan.joins) > 1
        unseen: set[int] = set()  # steps inside compiled loops
        for number, choice in sorted(run.executors.items()):
            yield f"  alternative {number + 1}: {choice}" if several else f"  {choice}"
            if not choice.breadth_first:
                unseen.update(map(id, all_steps(run.plan.joins[number].steps)))

        def remark(step: Step) -> str:
            seen = run.seen.get(id(step))
            if seen is None:
                return "" if id(step) in unseen else "not reached"
            tried = f", {seen.tried:,} tried" if isinstance(step, Join) and seen.tried else ""
            took = "" if id(step) in unseen else f", {seen.seconds * 1000:.1f} ms"
            return f"{seen.rows_out:,} rows{tried}{took}"

        yield from ("  " + line for line in format_rule(run.plan, remark).splitlines())

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def to_dict(self) -> dict[str, Any]:
        """The same, as plain data: all rounds are there."""
        return {
            "device": self.device,
            "seconds": self.seconds,
            "peak_bytes": self.peak,
            "rules": [
                {
                    "relation": run.plan.relation,
                    "rows": run.rows,
                    "seconds": run.seconds,
                    "device": self.device if run.left is None else "cpu",
                    "executors": [str(choice) for _, choice in sorted(run.executors.items())],
                    "plan": format_rule(run.plan).splitlines(),
                }
                for run in self.runs
            ],
            "strata": [
                {
                    "relations": list(told.stratum.relations),
                    "recursive": told.stratum.recursive,
                    "way": None if told.way is None else str(told.way),
                    "rounds": told.rounds,
                    "rows": dict(told.rows),
                    "seconds": told.seconds,
                    "peak_bytes": told.peak,
                    "rules": [
                        {
                            "relation": did.relation,
                            "rule": rule_text(did.rule),
                            "round": did.round,
                            "tried": did.tried,
                            "new": did.new,
                            "duplicates": did.duplicates,
                            "seconds": did.seconds,
                            "bytes": did.bytes,
                            "executor": did.executor,
                        }
                        for did in told.rules
                    ],
                }
                for told in self.strata
            ],
        }


def _lines(told: StratumTold) -> Iterator[tuple[Any, ...]]:
    """A line of `Profile.rounds` for each rule and round, and for a fixpoint without rounds."""
    names = ", ".join(told.stratum.relations)
    for did in told.rules:
        yield (
            names, did.relation, rule_text(did.rule), did.round, did.tried, did.new,
            did.duplicates, did.seconds, did.bytes, did.executor,
        )  # fmt: skip
    if told.way is not None:
        before = sum(did.new or 0 for did in told.rules)
        new = sum(told.rows.values()) - before
        tried = told.way.tried
        again = None if tried is None else max(0, tried - new)
        yield (
            names, names, str(told.way), None, tried, new, again,
            told.way.seconds, told.peak, told.way.name,
        )  # fmt: skip


def _stratum(told: StratumTold) -> Iterator[str]:
    """A fixpoint: how many rounds, how rows came, and what rules did in the rounds that matter."""
    rows = ", ".join(f"{count:,} rows of {name}" for name, count in told.rows.items())
    rounds = "" if told.way is not None else f" in {_many(told.rounds, 'round')}"
    yield f"fixpoint: {rows}{rounds}, {told.seconds:.3f} s, {format_bytes(told.peak)} at the most"
    if told.way is not None:
        yield f"  {told.way}"
    numbers: dict[str, int] = {}
    for did in told.rules:
        numbers.setdefault(rule_text(did.rule), len(numbers) + 1)
    yield from (f"  rule {number}: {text}" for text, number in numbers.items())
    if not told.rules:
        return
    by_round: dict[int, list[RuleRound]] = {}
    for did in told.rules:
        by_round.setdefault(did.round, []).append(did)
    if len(by_round) > 1:
        news = [sum(did.new or 0 for did in by_round.get(at, ())) for at in range(told.rounds + 1)]
        yield f"  new rows, round 0 to {told.rounds}: {sparkline(news)}"
    cells: list[tuple[str, ...]] = [("round", "rule", "tried", "new", "known", "ms", "held", "by")]
    shown = _shown(by_round)
    for before, at in zip([-1, *shown], shown, strict=False):
        if at > before + 1:
            skipped = [did for n in range(before + 1, at) for did in by_round.get(n, ())]
            cells.append(_line("...", "", skipped))
        cells += [_line(str(at), str(numbers[rule_text(d.rule)]), [d]) for d in by_round[at]]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells if len(cells) > 1 else ():
        parts = [cell.rjust(width) for cell, width in zip(line[:-1], widths, strict=False)]
        yield f"    {'  '.join(parts)}  {line[-1]}"


def _line(at: str, rule: str, done: Sequence[RuleRound]) -> tuple[str, ...]:
    tried = sum(did.tried for did in done)
    new, known = _sum([did.new for did in done]), _sum([did.duplicates for did in done])
    seconds = sum(did.seconds for did in done)
    most = max((did.bytes for did in done), default=0)
    by = ", ".join(dict.fromkeys(did.executor for did in done if did.executor))
    return (
        at, rule, f"{tried:,}", new, known, f"{seconds * 1000:.1f}",
        format_bytes(most), by,
    )  # fmt: skip


def _sum(counts: Sequence[int | None]) -> str:
    """Together; nothing where one of them is not known."""
    known = [count for count in counts if count is not None]
    return f"{sum(known):,}" if len(known) == len(counts) else ""


def _shown(by_round: dict[int, list[RuleRound]]) -> list[int]:
    """All rounds of a short fixpoint; of a long one the first, the largest, and the last."""
    rounds = sorted(by_round)
    if len(rounds) <= 3 * ENDS + 1:
        return rounds
    largest = sorted(rounds, key=lambda at: -sum(did.tried for did in by_round[at]))
    return sorted({*rounds[:ENDS], *largest[:ENDS], *rounds[-ENDS:]})


def sparkline(values: Sequence[int]) -> str:
    """A bar for each value; where there are many, for the largest of several. 0 is a dot.

    >>> sparkline([1, 4, 8, 2, 0])
    '▁▄█▂·'
    """
    step = -(-len(values) // WIDEST) or 1
    tops = [max(values[at : at + step]) for at in range(0, len(values), step)]
    most = max(tops, default=0)
    return "".join(BARS[-(-top * len(BARS) // most) - 1] if top else "·" for top in tops)


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}" + ("" if count == 1 else "s")
