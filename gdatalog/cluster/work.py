"""What a worker runs: one join of a rule, within some cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gdatalog.cpu_ops.evaluate import Scope
from gdatalog.engine.device import CPU
from gdatalog.engine.knobs import Knobs
from gdatalog.engine.run import Run
from gdatalog.engine.sources import Sources
from gdatalog.executors.gather import Gathering
from gdatalog.executors.limits import Limits
from gdatalog.executors.sinks import RowSet
from gdatalog.plan.cells import Cell, within
from gdatalog.plan.nodes import RulePlan, TrieRef
from gdatalog.storage.rows import Columns
from gdatalog.storage.symbols import SymbolTable
from gdatalog.storage.trie import Trie
from gdatalog.values import Value


@dataclass(frozen=True, slots=True)
class Task:
    """What all parts of a join's work have in common: join `number` of a rule."""

    plan: RulePlan
    number: int
    params: Mapping[str, Value]
    memory: int
    knobs: Knobs


def rows_within(
    task: Task, cells: Sequence[Cell], tries: Mapping[TrieRef, Trie], symbols: SymbolTable
) -> Columns:
    """The distinct rows that a join gives within some cells."""
    join = task.plan.joins[task.number]
    limits = Limits(memory=task.memory)
    scope = Scope(symbols, task.params)
    sink = RowSet(join.outputs, CPU.ops, scope, limits, None)
    for cell in cells:
        _run(task, cell, tries, scope, limits).into_set(task.number, sink)
    rows, _ = sink.finish()
    return rows


def gathered_within(
    task: Task, cells: Sequence[Cell], tries: Mapping[TrieRef, Trie], symbols: SymbolTable
) -> Gathering:
    """What a join's bindings within some cells come to, group by group."""
    limits = Limits(memory=task.memory)
    scope = Scope(symbols, task.params)
    gathering = Gathering(task.plan.gathers, CPU.ops, scope, limits)
    for cell in cells:
        run = _run(task, cell, tries, scope, limits)
        gathering = run.into_bag(task.number, gathering)
    return gathering


def _run(
    task: Task, cell: Cell, tries: Mapping[TrieRef, Trie], scope: Scope, limits: Limits
) -> Run:
    joins = list(task.plan.joins)
    joins[task.number] = within(joins[task.number], cell)
    plan = replace(task.plan, joins=tuple(joins))
    return Run(plan, Sources(tries.__getitem__), scope, limits, task.knobs)
