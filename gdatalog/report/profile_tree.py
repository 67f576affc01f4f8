"""`Profile`: the plan's tree with actual rows, time and memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gdatalog.engine.context import ExecutionContext
from gdatalog.engine.metrics import Index, Metrics, RuleRun, StratumMetrics
from gdatalog.overhead import Costs
from gdatalog.plan.join_plan import RulePlan
from gdatalog.planner.check.checked import rule_text
from gdatalog.progress import format_bytes
from gdatalog.records import cached_property, dataclass, field, fields
from gdatalog.report import plan_tree, rules
from gdatalog.report.costliest import costliest
from gdatalog.report.indexes import index_label
from gdatalog.report.numbers import many, per_second, took
from gdatalog.report.plan_nodes import Executor, Happened, order_of, plan_nodes, with_dedup
from gdatalog.report.round_table import COLUMNS, round_lines, rounds_node, rule_key
from gdatalog.report.rules import StratumRan
from gdatalog.report.shown import Shown
from gdatalog.report.tree import Facts, Kind, ReportNode, facts
from gdatalog.values import shown_name

if TYPE_CHECKING:
    import pandas as pd

    from gdatalog.result import Result

LITTLE = 3e-5  # seconds: anything faster was a cache hit
MANY_WORDS = 1_000_000  # partial matches: smaller numbers are shown as facts only
MOST_HELD = 8  # owners of memory that are shown


@dataclass(eq=False)
class Profile(Shown):
    """How a program was evaluated: the tree of `explain`, with actual rows and time.

    Expected bindings stand beside actual ones; a mark shows estimates that were wrong by a factor
    of ten or more. `result` is the answer, `rounds` a pandas DataFrame with each rule's metrics in
    each round of each fixpoint. `held`: final memory by owner. `spilled`: bytes written to
    temporary files. `ended`: what ended the run before it was finished, or None.

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
    __repr__ = Shown.__repr__

    metrics: Metrics
    seconds: float
    peak: int
    result: Result | None
    device: str = "cpu"
    held: Mapping[str, int] = field(default_factory=dict)
    spilled: int = 0
    ended: str | None = None

    @classmethod
    def after(
        cls, context: ExecutionContext, result: Result | None, error: BaseException | None = None
    ) -> Profile:
        """The profile of what an evaluation has done so far. `error`: what ended it."""
        metrics, limits, account = context.metrics, context.limits, context.limits.account
        ended = None
        if error is not None:
            metrics.stop()
            ended = str(getattr(error, "kind", "interrupted"))
        return cls(
            metrics, metrics.seconds, account.peak, result, _devices(metrics, context),
            dict(account.held), limits.spilled, ended,
        )  # fmt: skip

    @property
    def runs(self) -> list[RuleRun]:
        """The metrics of each plan of a rule. A query that was not profiled has only times."""
        return self.metrics.all_runs()

    @property
    def strata(self) -> list[StratumMetrics]:
        """The metrics of each stratum, in evaluation order."""
        return self.metrics.strata

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

    @cached_property
    def tree(self) -> ReportNode:
        """The whole profile as a tree."""
        metrics = self.metrics
        did, left = rules.ran(metrics)
        strata = [self._stratum(number, each) for number, each in enumerate(did, 1)]
        others = [self._named(f"for {run.plan.relation}", [run.plan], [run], {}) for run in left]
        costs = metrics.costs
        texts = _apart(costs)
        spilled = f", {format_bytes(self.spilled)} written to temporary files" * bool(self.spilled)
        if self.ended is not None:
            texts.insert(0, f"not finished: {self.ended}")
        elif not strata and not others:
            texts.append("nothing to evaluate: only stored relations are read")
        return ReportNode(
            "plan",
            f"{self.seconds:.3f} s {plan_tree.where(self.device, '')}{_and_workers(metrics)}, "
            f"{format_bytes(self.peak)} held at the most{spilled}",
            (", ".join(texts),) if texts else (),
            seconds=self.seconds,
            facts=facts(
                device=self.device,
                workers=metrics.workers or None,
                seconds=self.seconds,
                peak_bytes=self.peak,
                spilled_bytes=self.spilled or None,
            )
            + _cost_facts(costs),
            children=(
                *costliest(did, metrics, self.seconds),
                *strata,
                *others,
                *_indexes(metrics.indexes),
                *self._memory(),
            ),
        )

    def _share(self, seconds: float | None) -> float | None:
        return seconds / self.seconds if seconds is not None and self.seconds else None

    # ------------------------------------------------------------------------------- strata

    def _stratum(self, number: int, each: StratumRan) -> ReportNode:
        metrics = each.metrics
        details = list(metrics.how)
        rows = ", ".join(
            f"{many(count, 'row')} of {shown_name(name)}" for name, count in metrics.rows.items()
        )
        # A fixpoint processes each row once, but a best value after each improvement.
        in_place = metrics.way is not None and metrics.way.of == "groups"
        followed = {} if in_place else metrics.rows
        rounds = ""
        if metrics.stratum.recursive and metrics.way is None:
            rounds = f" in {many(metrics.rounds, 'round')}"
        if metrics.unfinished:
            rows = f"not finished: {metrics.doing}" if metrics.doing else "not finished"
            rounds = "" if metrics.doing else rounds
        elif not self.metrics.lasting and not rows:
            rows = "rows not counted"
        details.append(f"{rows or 'no rows'}{rounds}, {format_bytes(metrics.peak)} held")
        if metrics.way is not None:
            details.append(str(metrics.way))
        numbers = {rule_key(own.rule): number for number, own in enumerate(each.rules, 1)}
        nodes = []
        for at, own in enumerate(each.rules, 1):
            name = f"rule {at}: " if metrics.rounds and len(each.rules) > 1 else ""
            label = f"{name}{rule_text(own.rule)}"
            nodes.append(self._named(label, own.plans, own.runs, followed))
        if metrics.stratum.recursive:
            table = rounds_node(metrics, numbers)
            nodes += [] if table is None else [table]
        rows_of = ((f"rows of {shown_name(name)}", count) for name, count in metrics.rows.items())
        known = (
            *plan_tree.stratum_facts(metrics.stratum),
            *rows_of,
            *facts(rounds=metrics.rounds, peak_bytes=metrics.peak),
            *(() if metrics.way is None else facts(way=str(metrics.way))),
        )
        seconds = max(metrics.seconds, 0.0 if metrics.way is None else metrics.way.seconds)
        return ReportNode(
            "stratum",
            plan_tree.stratum_label(number, metrics.stratum),
            tuple(details),
            seconds=seconds,
            share=self._share(seconds),
            facts=known,
            children=tuple(nodes),
        )

    def _named(
        self,
        label: str,
        plans: Sequence[RulePlan],
        runs: Sequence[RuleRun],
        followed: Mapping[str, int],
    ) -> ReportNode:
        """A rule with its plans and their runs. Plans made during the run have runs only."""
        by_plan = {id(run.plan): run for run in runs}
        every = [*plans, *(run.plan for run in runs if not any(run.plan is p for p in plans))]
        every = sorted((plan for plan in every if plan.joins), key=lambda p: bool(p.recursive_on))
        if len(every) == 1:
            return self._plan("rule", label, every[0], by_plan.get(id(every[0])), followed)
        seen: Counter[str] = Counter()
        parts = []
        for plan in every:
            name = plan_tree.plan_label(plan)
            again = f", planned again ({seen[name]})" if seen[name] else ""
            seen[name] += 1
            # Rows are not counted separately for several plans.
            given = {} if again else followed
            run = by_plan.get(id(plan))
            parts.append(self._plan("plan of a rule", name + again, plan, run, given))
        seconds = sum(run.seconds for run in runs) if runs else None
        return ReportNode(
            "rule",
            label,
            seconds=seconds,
            share=self._share(seconds),
            facts=(("relation", every[0].relation),) if every else (),
            children=tuple(parts),
        )

    def _executor(self, run: RuleRun, plan: RulePlan, number: int) -> Executor:
        choice = run.executors[number]
        executor = plan_tree.chosen(choice)
        on_gpu = (run.device or self.device) != "cpu" and run.left is None
        if choice.breadth_first or plan.gathers or on_gpu:
            return executor
        return with_dedup(executor, plan.joins[number])

    def _plan(
        self,
        kind: Kind,
        label: str,
        plan: RulePlan,
        run: RuleRun | None,
        followed: Mapping[str, int],
    ) -> ReportNode:
        if run is None:
            _, children = plan_nodes(plan)
            return ReportNode(kind, label, facts=facts(relation=plan.relation), children=children)
        executors = [
            self._executor(run, plan, number) if number in run.executors else Executor()
            for number in range(len(plan.joins))
        ]
        whole = frozenset(n for n, choice in run.executors.items() if choice.breadth_first)
        whole = frozenset() if run.unfinished else whole  # its steps are counted when it ends
        executor, children = plan_nodes(
            plan, executors, Happened(run.seen, self.seconds, whole, {**followed, **run.scanned})
        )
        work = run.seconds - run.costs.seconds
        rate = [per_second(run.rows, work)] if run.rows and work > 0 else []
        held = [f"{format_bytes(run.bytes)} held"] if run.bytes else []
        placed = plan_tree.placement(run, run.device or self.device)
        as_rows, as_tree = rules.partial_matches(run)
        done = ["not finished"] if run.unfinished else []
        if self.metrics.lasting and (run.rows or not run.unfinished):
            done.append(many(run.rows, "row"))
        words = f"{as_rows:,} words as rows, {as_tree:,} as a tree"
        matches = f"partial matches: {words} ({as_rows / max(1, as_tree):.2f}x)"
        share = run.handed / max(1, rules.bindings_of(run))
        return ReportNode(
            kind,
            label,
            (
                *placed.details,
                *executor.details,
                *filter(None, (", ".join([*done, *rate, *held, *_apart(run.costs)]),)),
                *((matches,) if as_rows >= MANY_WORDS else ()),
                *((f"{share:.0%} of bindings depth-first, from beyond a chunk",) if share else ()),
            ),
            seconds=run.seconds,
            share=self._share(run.seconds),
            facts=(
                *facts(relation=plan.relation, rows=run.rows, bytes=run.bytes),
                *facts(words_as_rows=as_rows or None, words_as_tree=as_tree or None),
                *facts(bindings_depth_first=run.handed or None),
                *_cost_facts(run.costs),
                *placed.facts,
                ("order", ", ".join(order_of(plan))),
                *executor.facts,
            ),
            children=children,
        )

    # ------------------------------------------------------------------------------- memory

    def _memory(self) -> tuple[ReportNode, ...]:
        """The final memory by owner, the largest first."""
        parts = sorted(((size, name) for name, size in self.held.items() if size), reverse=True)
        texts = [f"{shown_name(name)} {format_bytes(size)}" for size, name in parts[:MOST_HELD]]
        if rest := sum(size for size, _ in parts[MOST_HELD:]):
            texts.append(f"other {format_bytes(rest)}")
        held = tuple((name, size) for size, name in parts)
        node = ReportNode("memory", "held in the end", (", ".join(texts),), facts=held)
        return (node,) if parts else ()


def _devices(metrics: Metrics, context: ExecutionContext) -> str:
    """The devices that ran the rules: the database's, or those that "auto" chose."""
    used = {run.device for run in metrics.runs if run.device is not None}
    return context.device.name if context.later is None or not used else " and ".join(sorted(used))


def _and_workers(metrics: Metrics) -> str:
    """The workers that took part."""
    workers = metrics.workers
    gpus = any(run.spread is not None and run.spread.on_gpus for run in metrics.runs)
    text = f" and {workers:,} worker{'s' * (workers != 1)}" if workers else ""
    return f"{text} with GPUs" if gpus else text


def _indexes(indexes: Sequence[Index]) -> tuple[ReportNode, ...]:
    """The indexes that were read, and which of them were built."""
    indexes = [index for index in indexes if index.ref.columns]
    if not indexes:
        return ()
    made = [index.seconds for index in indexes if index.seconds is not None]
    held = sum(index.bytes for index in indexes)
    text = f"{len(made)} built in {took(sum(made))}" if made else "all cached"
    node = ReportNode(
        "indexes",
        f"indexes: {text}, {format_bytes(held)} in all",
        seconds=sum(made) if made else None,
        facts=(("bytes", held),),
        children=tuple(map(_index, indexes)),
    )
    return (node,)


def _index(index: Index) -> ReportNode:
    times = "" if index.built < 2 else f"{index.built:,} times "
    text = "cached" if index.seconds is None else f"built {times}in {took(index.seconds)}"
    return ReportNode(
        "index",
        index_label(index.ref, index.names),
        (f"{many(index.rows, 'entry')}, {text}, {format_bytes(index.bytes)}",),
        seconds=index.seconds,
        facts=(("rows", index.rows), ("bytes", index.bytes), ("there", index.seconds is None)),
    )


def _apart(costs: Costs) -> list[str]:
    """Time outside of joins and loops."""
    spent = {
        "loading": costs.loading,
        "planning": costs.planning,
        "compiling": costs.compiling,
        "making indexes": costs.indexing,
        "opening the GPU": costs.opening,
    }
    texts = [f"{took(seconds)} {what}" for what, seconds in spent.items() if seconds > LITTLE]
    if costs.moved or costs.moving:
        texts.append(f"{format_bytes(costs.moved)} moved in {took(costs.moving)}")
    return texts


def _cost_facts(costs: Costs) -> Facts:
    return tuple((field.name, getattr(costs, field.name)) for field in fields(costs))
