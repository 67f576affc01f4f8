"""Converts data to relations: on the host, on a device, or on the workers of a cluster."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from gdatalog.account import Accounts
from gdatalog.cancellation import OBJECT, Watch, cancellable, current_watch
from gdatalog.engine.context import Cluster, Wanted, loaded_afar
from gdatalog.engine.device import CPU, Device
from gdatalog.engine.devices import LaterGpu
from gdatalog.engine.facts.files import Files, all_readable
from gdatalog.limits import Limits, accounted
from gdatalog.planner.check import Schema
from gdatalog.records import dataclass, replace
from gdatalog.storage.key_columns import relation_of_few, relation_of_tables, tables_of
from gdatalog.storage.load_options import PLAIN, LoadOptions
from gdatalog.storage.relation import Relation
from gdatalog.storage.spill import Spill
from gdatalog.storage.symbols import SymbolTable


@dataclass(frozen=True, slots=True)
class Loader:
    """Where data goes. `files`: those that may be read. `spill`: where rows beyond the memory limit
    go. `later`: the GPU that large data may open, from `gpu_bytes`. `spread`: whether a cluster's
    workers take data. `accounts`: those of the evaluations that run."""

    symbols: SymbolTable
    files: Files
    watch: Watch
    memory_limit: int
    spill: Spill | None
    device: Device
    later: LaterGpu | None
    gpu_bytes: int
    cluster: Cluster | None
    spread: str
    accounts: Accounts

    def bounded(self) -> AbstractContextManager[object]:
        """A context in which rows that are read fit the memory limit, or go to temporary files."""
        limits = Limits(memory=self.memory_limit, spill=self.spill, watch=self.watch)
        limits.account.beside = self.accounts
        return nullcontext() if self.spill is None else accounted(limits, CPU.name)

    def relation(
        self, name: str, data: Any, options: LoadOptions, declared: Schema | None
    ) -> Relation:
        """Converts data to a relation, by its declaration if there is one."""
        few = self._few(data, options, declared)
        if few is not None:
            return few
        path = os.fspath(data) if isinstance(data, (str, os.PathLike)) else None
        if path is not None:
            all_readable(path, self.files)
        if isinstance(data, Relation):
            own = data.columns, data.types
            if options == PLAIN and (declared is None or own == (declared.columns, declared.types)):
                return data
            data = data.to_table(self.symbols)
        found = self._afar(name, data, options, declared)
        if found is not None:
            return found
        gpu = None if self.later is None else self.later.for_data(data, self.gpu_bytes)
        device = gpu or self.device
        there = device.ops.on_device

        def made() -> Relation:
            xp = None if there is None else there.xp
            tables = tables_of(data, replace(options, declared=declared, what=name, there=xp))
            relation, loaded = relation_of_tables(tables, self.symbols, there)
            if options.findings is not None and relation.types:
                options.findings.count(loaded, relation.length)
            return relation

        with self.watch.work("loading", name if path is None else f"{name} from {path}"):
            if path is not None and there is None:
                with self.bounded():
                    relation = self.watch.aside(made)
            else:
                from gdatalog.storage.raw import at_hand

                looked_at = at_hand(data) * OBJECT if there is None else 0
                relation = cancellable(looked_at, made, None)
        if not relation.store.on_host:
            device.hold(relation)
        return relation

    def _few(self, data: Any, options: LoadOptions, declared: Schema | None) -> Relation | None:
        """The relation of a few plain rows that stay here, or None."""
        elsewhere = self.device is not CPU or self.cluster is not None
        if declared is None or elsewhere or options.mends or options.row_id or options.columns:
            return None
        current_watch().poll()
        found = relation_of_few(data, declared.columns, declared.types, self.symbols)
        if found is None:
            return None
        if options.findings is not None:
            options.findings.count(len(data), found.length)
        return found.of_kinds((), declared.nullable)

    def _afar(
        self, name: str, data: Any, options: LoadOptions, declared: Schema | None
    ) -> Relation | None:
        """The relation of data that a cluster's workers read themselves or already have, or
        None."""
        if self.cluster is None or self.spread == "never" or options.mends or options.row_id:
            return None
        forced = self.spread == "partition"
        wanted = Wanted(name, self.memory_limit, options.columns, declared, forced)
        with self.watch.work("loading", name):
            keep = options.nulls == "keep"
            return loaded_afar(self.cluster, data, wanted, self.symbols, keep)
