"""The context of an execution, the inputs of a stratum or plan, and the interface to workers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from gdatalog.cpu_ops.expressions import Scope
from gdatalog.engine.compiler.plans import Plans
from gdatalog.engine.derived import Derived, Rows, Seeds
from gdatalog.engine.device import CPU, Device, function_soon
from gdatalog.engine.devices import LaterGpu
from gdatalog.engine.metrics import Metrics, RuleRound, RuleRun
from gdatalog.executors.ops import Ops
from gdatalog.limits import Limits
from gdatalog.plan.conditions import When
from gdatalog.plan.join_plan import JoinPlan, RulePlan, TrieRef
from gdatalog.plan.placement import ExecutorChoice, Spread, WorkerPlacement
from gdatalog.planner.check import CheckedRule, Schema, Stratum
from gdatalog.planner.passes import PassTrace
from gdatalog.records import dataclass, field, replace
from gdatalog.settings import Settings, Strategy, Thresholds
from gdatalog.storage.load_options import Declared
from gdatalog.storage.places import MissingValue
from gdatalog.storage.relation import Relation
from gdatalog.storage.row_ops import SeenRows
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.trie import Trie
from gdatalog.values import TypeName

if TYPE_CHECKING:
    from gdatalog.printer.module import PrintedPlan


@dataclass(frozen=True, slots=True)
class ExecutionContext:
    """What stays the same for a whole execution: a call of a database, or a task of a worker.

    `force_chunk`: how many rows a level has at once; None: as many as memory allows. `limit_sizes`:
    the number of rows at which `.limitsize` stops a relation. `later`: the GPU that plans may
    choose instead of the CPU, under `device="auto"`. `passes`: what planning does, if
    somebody wants to see it. `compiled`: a fixpoint runs only if its loops are compiled.
    """

    limits: Limits
    scope: Scope
    metrics: Metrics = field(default_factory=lambda: Metrics(lasting=False))
    settings: Settings = Settings()
    device: Device = CPU
    cluster: Cluster | None = None
    force_chunk: int | None = None
    limit_sizes: Mapping[str, int] = field(default_factory=dict)
    later: LaterGpu | None = None
    passes: PassTrace | None = None
    compiled: bool = False

    def waits_for(self, loops: Sequence[tuple[PrintedPlan, str]]) -> bool:
        """Whether these loops, each with a label, would have to be compiled first. Then they are
        compiled meanwhile."""
        device = self.device.accelerator
        if not self.compiled:
            return False
        if device is None:
            return None in [function_soon(printed, 0.0) for printed, _ in loops]
        soon = [device.loops_soon(*each) for each in loops]  # all begin to be compiled
        return not all(soon)

    @property
    def thresholds(self) -> Thresholds:
        return self.settings.thresholds

    def forced(self, strategy: Strategy) -> ExecutionContext:
        """The same with this strategy."""
        return replace(self, settings=replace(self.settings, strategy=strategy))

    @property
    def memory(self) -> int:
        """The memory limit, in bytes."""
        memory = self.limits.account.memory
        assert memory is not None
        return memory


@dataclass(frozen=True, slots=True)
class StratumInputs:
    """What a stratum reads: the execution's context, schemas, and relations of lower strata.

    `seeds`: the rows of its own relations that no rule derives. `limit`: at most this many rows of
    its one relation are needed. `since`: what was added since its relations were `known`. `replan`
    plans a stratum again. `made`: what planning has computed already. `met`: the conditions on
    which operators gave up, or would if the call came a few times. `tries`: indexes that exist
    already, in place of relations: on a worker, those that it was sent. `placement`: of the
    program's strata between the CPU and a GPU, if there is a choice (`placing.py`).
    """

    context: ExecutionContext
    schemas: Mapping[str, Schema]
    param_types: Mapping[str, TypeName]
    relation: Callable[[str], Relation]
    plans: Plans = field(default_factory=Plans)
    seeds: Seeds = field(default_factory=dict)
    limit: int | None = None
    since: Since | None = None
    made: dict[Hashable, Any] = field(default_factory=dict)
    replan: Replan | None = None
    met: list[When] = field(default_factory=list)
    tries: Mapping[TrieRef, Trie] = field(default_factory=dict)
    placement: Any = None

    def with_schemas(self, more: Mapping[str, Schema]) -> StratumInputs:
        """The same with the schemas of more relations."""
        return replace(self, schemas={**self.schemas, **more})


# Plans a stratum with all rows, without one kind of operator; returns the inputs as well.
Replan = Callable[[Stratum, str], tuple["Operator", StratumInputs]]


class Operator(Protocol):
    """A node of a plan: plain data that says how a stratum is evaluated, prepares that, and runs
    it."""

    @property
    def parts(self) -> tuple[Operator, ...]:
        """The operators that it is composed of, in the order in which they may run."""

    @property
    def rules(self) -> Sequence[tuple[CheckedRule, RulePlan]]:
        """The rules that it runs itself, each with its plans."""

    def lines(self, whole: bool = False) -> tuple[str, ...]:
        """Its words for `explain`, and those of its parts. `whole`: including what runs if compiled
        loops do not suit, or the device has no room."""

    def prepare(self, context: ExecutionContext) -> Any:
        """What its runs share, because it does not depend on the rows of one of them: compiled
        functions, variants of rules, buffers. It is made once, and kept with the plan; one run at a
        time has it."""

    def run(
        self, prepared: Any, inputs: StratumInputs, until: tuple[When, ...] = ()
    ) -> Mapping[str, Relation] | When:
        """The stratum's relations, or a condition that was met: one of `until`, or that this
        operator does not suit."""


@dataclass(frozen=True, slots=True)
class Since:
    """A stratum's old relations, the rows that were added to others since, and the rules that were
    added. Its own new rows are the `seeds` of its inputs."""

    known: Mapping[str, Relation]
    rows: Mapping[str, Relation]
    rules: tuple[CheckedRule, ...]


@dataclass(frozen=True, slots=True)
class Wanted:
    """The target of loaded data: the relation `name`, with these columns and types if they are
    declared. `memory`: the limit on this machine. `forced`: spread it even if it has few rows."""

    name: str
    memory: int
    columns: Sequence[str] | None = None
    declared: Declared | None = None
    forced: bool = False


class Cluster(Protocol):
    """Workers that can run parts of a rule; `gdatalog/cluster` implements it. A call may return
    None: then this process does the work, as it does without a cluster."""

    @property
    def connection(self) -> Any:
        """Dask's client, the workers, and their addresses."""

    def load(self, data: Any, wanted: Wanted, symbols: SymbolTable) -> Relation | None:
        """Loads data that workers read themselves, or already have, as a relation."""

    def rule(self, plan: RulePlan, inputs: RuleInputs, stratum: StratumInputs) -> Derived | None:
        """Evaluates a rule whose relations are all complete."""

    def stays(self, plan: RulePlan, inputs: StratumInputs) -> str | None:
        """The relation of which each worker reads its own part where it is stored; None if the rule
        cannot be planned so."""

    def plan_placement(
        self, plan: RulePlan, inputs: StratumInputs, known: Callable[[str], Relation | None]
    ) -> Spread | None:
        """Plans where a rule would run. None: on this machine, or unknown until more relations are
        evaluated. `known` returns the relations that are."""

    def placement(self, draft: Any, fixpoint: Any) -> WorkerPlacement | None:
        """Where a recursive stratum (a `StratumDraft`) runs; None if only on this machine.
        `fixpoint`: the `Partitioned` operator, if it applies."""

    def fixpoint(self, operator: Any, inputs: StratumInputs) -> Mapping[str, Relation] | None:
        """Evaluates a recursive stratum as an `OnWorkers` operator says, if possible."""

    def close(self) -> None:
        """Frees all data on the workers."""


TrieOf = Callable[[TrieRef], Trie]
RowsOf = Callable[[JoinPlan], Rows]


def no_rows(join: JoinPlan) -> Rows:
    raise AssertionError("nothing is given to this plan")


@dataclass(frozen=True, slots=True)
class Sources:
    """What a running plan reads. `rows_of`: the rows that a join starts from, on the device, in any
    order: a delta, or all rows of a scanned relation. `once`: whether a scan outputs no duplicates
    of the columns that it reads."""

    trie_of: TrieOf
    rows_of: RowsOf = no_rows
    once: Callable[[JoinPlan], bool] = lambda join: False


@dataclass(frozen=True, slots=True)
class RuleInputs:
    """What the run of a rule reads and records.

    `limit`: at most this many rows are needed. `report` and `stats`: its metrics, over all rounds
    and in this one. `lasting`: what the rounds of a fixpoint remember of processed rows. `on_host`:
    the sources for the CPU, which runs what the device refuses. `resident`: the host's tries for a
    rule that runs in cells, because it is not expected to fit (`in_cells`) or did not fit.
    """

    sources: Sources
    context: ExecutionContext
    limit: int | None = None
    report: RuleRun | None = None
    stats: RuleRound | None = None
    lasting: dict[int, SeenRows] | None = None
    on_host: Sources | None = None
    resident: Sources | None = None
    in_cells: bool = False

    @property
    def limits(self) -> Limits:
        return self.context.limits

    @property
    def scope(self) -> Scope:
        return self.context.scope

    @property
    def ops(self) -> Ops:
        return self.context.device.ops

    def tried(self, rows: int) -> None:
        """Records rows that joins produced, duplicates included."""
        if self.stats is not None:
            self.stats.tried += rows

    def chose(self, number: int, choice: ExecutorChoice) -> None:
        """Records the executor of a join."""
        if self.report is not None:
            self.report.executors[number] = choice
        if self.stats is not None:
            self.stats.executors[number] = choice.kind


def loaded_afar(
    cluster: Cluster, data: Any, wanted: Wanted, symbols: SymbolTable, nulls: bool = True
) -> Relation | None:
    """The relation of data that a cluster's workers read themselves or already have; None if they
    do not, or if values are missing and `nulls` are kept: such columns are loaded here."""
    if wanted.declared is not None and any(wanted.declared.nullable):
        return None
    try:
        return cluster.load(data, wanted, symbols)
    except MissingValue:
        if not nulls:
            raise
        return None
