"""An execution: a compiled text over a catalog, with its own inputs, for one call.

It reads the input files that the text needs, and evaluates the requested relations.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import Any

from gdatalog.engine.catalog.folders import Folders
from gdatalog.engine.catalog.parameters import GivenList, parameter, value_as
from gdatalog.engine.catalog.snapshot import Catalog
from gdatalog.engine.catalog.sources import Source
from gdatalog.engine.catalog.texts import Outline, nodes_of
from gdatalog.engine.compiler.compiled import Ask, Compiled, PlannedProgram, parameters_in
from gdatalog.engine.compiler.compiler import Compiler, Surroundings
from gdatalog.engine.compiler.plans import Plans
from gdatalog.engine.context import ExecutionContext, Wanted, loaded_afar
from gdatalog.engine.device import CPU
from gdatalog.engine.evaluator.demanded import answering
from gdatalog.engine.evaluator.evaluator import Evaluator
from gdatalog.engine.evaluator.kept_plans import KeptPlans
from gdatalog.engine.evaluator.results import Keeps, Results
from gdatalog.engine.facts.files import Files, find_include, read_program
from gdatalog.engine.facts.inputs import FileCache, Inputs
from gdatalog.engine.facts.lists import list_relation
from gdatalog.engine.untrusted import check_program
from gdatalog.errors import Caution, DataError, meant
from gdatalog.limits import accounted
from gdatalog.parser import Program, expand_includes
from gdatalog.parser import syntax as s
from gdatalog.planner.check import Checked, Schema
from gdatalog.planner.check.validity import Validity
from gdatalog.planner.check.walk import walk
from gdatalog.planner.rewrite.columns_read import columns_read, reading_only
from gdatalog.records import dataclass, field, replace
from gdatalog.storage.relation import Relation
from gdatalog.values import ParamType, Value

MOST_PROGRAMS = 64  # whose plans are kept with a catalog


@dataclass(frozen=True, slots=True)
class Usage:
    """What a text is for. `lasting`: the database keeps its rules, and their results. `whole`: the
    text is complete; then a relation without data is a mistake. `ends`: no call follows the text's
    own requests."""

    lasting: bool = False
    whole: bool = False
    ends: bool = False


@dataclass(frozen=True, slots=True)
class ExecutionResources:
    """What executions of a database share. `files`: those that texts may use. `warn`: receives
    cautions."""

    compiler: Compiler
    results: Results
    cache: FileCache
    files: Files
    warn: Callable[[Caution], None]


@dataclass(slots=True, eq=False)
class Execution:
    """A compiled text over a catalog. `context` has its parameters and `.limitsize`s. `own`: what
    the text states, until the database keeps it."""

    compiled: Compiled
    catalog: Catalog
    context: ExecutionContext
    params: Mapping[str, Any]
    folders: Folders
    inputs: Inputs
    evaluator: Evaluator
    lasting: bool
    own: Outline | None
    retractions: Sequence[s.Retract] = ()  # of the text, which were run
    retracted: Mapping[str, int] = field(default_factory=dict)  # how many rows went, by relation

    @property
    def checked(self) -> Checked:
        return self.compiled.checked

    @property
    def validity(self) -> Validity:
        """Which of the statements that the database keeps are valid."""
        return self.compiled.validity

    @property
    def files(self) -> Files:
        """The files that the text may use."""
        return self.inputs.files

    def kept_params(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters that the database keeps: copies of lists, which the user may change."""
        read = self.params
        return {n: read[n] if isinstance(read[n], GivenList) else v for n, v in given.items()}

    def kept_in(self, catalog: Catalog) -> None:
        """Called when the database keeps the text's rules: they are in this catalog now."""
        self.catalog, self.own, self.evaluator.facts = catalog, None, catalog.texts.facts
        self.evaluator.number = catalog.number

    @property
    def cautions(self) -> list[Caution]:
        """The cautions of this text and its evaluation, without those reported before."""
        return [*self.compiled.cautions, *self.context.scope.cautions.values()]

    def ignored(self, given: Iterable[str]) -> list[Caution]:
        """Warnings about given parameters that neither the text nor a kept rule reads."""
        known = set(self.compiled.parameters)
        unread = [name for name in given if name not in known]
        if unread:
            kept = self.catalog.texts.seen()
            known.update(*(parameters_in(each.outline.statements) for each in kept))
            known.update(parameters_in(self.retractions))
        near = {name: meant(str(name), known) for name in unread if name not in known}
        others = "parameters are " + ", ".join(f"${name}" for name in sorted(known))
        return [
            Caution(
                f"the parameter `${name}` is not read, and has no effect",
                hint=f"did you mean `${other}`?" if other else others if known else None,
            )
            for name, other in near.items()
        ]

    def asks(self) -> list[Ask]:
        """The text's requests, in order."""
        return [*self.compiled.asks]

    def asked(self) -> str:
        """The only relation that a query's text requests."""
        return self.compiled.asked

    def relation(
        self, name: str, limit: int | None = None, most_rows: int | None = None
    ) -> Relation:
        """Returns a relation, or at most `limit` of its rows. Raises an error as soon as it finds
        more than `most_rows`."""
        cause = self.validity.broken.get(name)
        if cause is not None:
            raise cause.error_for(name)
        evaluator, limits = self.evaluator, self.context.limits
        counted = most_rows is not None and (limit is None or limit > most_rows)
        wanted = limit
        if most_rows is not None and counted:
            wanted, limits.most_rows = most_rows + 1, (name, most_rows)
        with self.context.metrics.spending():
            some = wanted is not None
            with answering(evaluator, name, some, self.whole_asks()) as chosen:
                found = chosen.relation(name, wanted)
            if counted:
                limits.count(name, found.length)
        if counted and evaluator.keep([name]):
            return self.relation(name, limit)  # for the next call
        return found

    def at_hand(self, name: str) -> Relation | None:
        """A relation whose rows are known; None if it would have to be evaluated or read first."""
        if not all(map(self.inputs.at_hand, self.evaluator.needed([name]))):
            return None
        return self.evaluator.at_hand(name)

    def said(self, name: str) -> int | None:
        """The number of rows of a relation that has only kept facts."""
        if name in self.inputs or name in self.compiled.planned.homes or self.own is not None:
            return None
        return self.catalog.texts.rows(name, self.checked.schemas[name].types)

    @contextmanager
    def reading_ahead(self) -> Iterator[None]:
        """Within this context, a thread reads the files that the text's outputs need, if it
        requests nothing else."""
        evaluator = self.evaluator
        if evaluator.let_go is None or self.context.cluster is not None:
            yield
            return
        strata = evaluator.strata_of(evaluator.asked)
        names = (atom.name for each in strata for rule in each.rules for atom in rule.atoms)
        ahead = self.inputs.read_ahead(dict.fromkeys(names), self.context.limits.spare)
        try:
            yield
        finally:
            ahead.stop()

    def done_by(self, before: tuple[int, int]) -> str:
        """Who ran the rules since the metrics were at `before`: the devices, or the cluster's
        workers."""
        metrics = self.context.metrics
        if metrics.spread == before[0]:
            used = {*metrics.devices[before[1] :]} or {self.context.device.name}
            return " and ".join(sorted(used))
        return f"cluster, {metrics.workers:,} worker{'s' * (metrics.workers != 1)}"

    def whole_asks(self) -> set[str]:
        """The relations that the text's outputs need, which are evaluated in full."""
        asked = [ask.name for ask in self.compiled.asks if not ask.name.startswith("?")]
        return self.evaluator.needed(asked) if asked else set()


def begin(
    program: Program,
    catalog: Catalog,
    context: ExecutionContext,
    resources: ExecutionResources,
    typed: Mapping[str, tuple[ParamType, Value | GivenList]],
    folders: Folders,
    usage: Usage,
) -> Execution:
    """Compiles a text over a catalog. `context`: without parameters and `.limitsize`s. `typed`: the
    types and values of parameters."""
    params = {name: value for name, (_, value) in typed.items()}
    types = {name: kind for name, (kind, _) in typed.items()}
    compiled = compile_text(program, catalog, context, resources, types, folders, usage)
    checked, symbols, files = compiled.checked, context.scope.symbols, resources.files
    remote = partial(_afar, context)
    made = partial(list_relation, params, symbols, resources.cache.lists)
    inputs = Inputs(
        catalog.stored, compiled.sources, checked.schemas, symbols, files, resources.cache, remote,
        resources.warn, {name: partial(made, values) for name, values in checked.lists.items()},
        duplicates=context.settings.duplicates,
    )  # fmt: skip
    for name, values in checked.lists.items():
        if values.type == "symbol":  # before anything reads the ranks of strings
            inputs[name]
    scope = replace(context.scope, params=scalars(compiled, params))
    context = replace(context, scope=scope, limit_sizes=compiled.limit_sizes)
    evaluator = _evaluator(compiled, catalog, context, inputs, resources.results, usage)
    return Execution(
        compiled, catalog, context, params, folders, inputs, evaluator, usage.lasting,
        compiled.outline,
    )  # fmt: skip


def compile_text(
    program: Program,
    catalog: Catalog,
    context: ExecutionContext,
    resources: ExecutionResources,
    types: Mapping[str, ParamType],
    folders: Folders,
    usage: Usage,
) -> Compiled:
    """Compiles a text over a catalog, for parameters of these types."""
    if context.scope.bounded:
        check_program(program, catalog.texts, folders)
    program = _with_includes(program, folders, resources)
    symbols, remote = context.scope.symbols, partial(_afar, context)

    def read(source: Source, name: str) -> Relation:
        alone = Inputs(
            {}, {}, {}, symbols, resources.files, resources.cache, remote, resources.warn,
            duplicates=context.settings.duplicates,
        )  # fmt: skip
        with accounted(context.limits, context.device.name):
            return alone.file(source, name)

    notes = None if context.passes is None else context.passes.program
    around = Surroundings(catalog, types, usage.whole, folders, read, notes)
    return resources.compiler.compile(program, around)


def _with_includes(program: Program, folders: Folders, resources: ExecutionResources) -> Program:
    if not any(isinstance(statement, s.Include) for statement in program.statements):
        return program
    files, warn = resources.files, resources.warn
    return expand_includes(
        program,
        lambda path, span: read_program(find_include(path, span, folders), files, warn, span),
    )


def typed_params(
    program: Program, given: Mapping[str, Any]
) -> dict[str, tuple[ParamType, Value | GivenList]]:
    """The types and values of parameters."""
    return {name: _parameter(program, name, value) for name, value in given.items()}


def _parameter(program: Program, name: str, value: object) -> tuple[ParamType, Value | GivenList]:
    try:
        return parameter(name, value)
    except DataError as error:
        for node in chain.from_iterable(map(nodes_of, program.statements)):
            for part in walk(node):
                if isinstance(part, s.Param | s.ListParam) and part.name == name:
                    error.span = error.span or part.span
        raise


def scalars(compiled: Compiled, params: Mapping[str, Value | GivenList]) -> dict[str, Value]:
    """The values of parameters that are no lists, as the rules of a text read them."""
    types = compiled.checked.param_types
    return {
        name: value_as(types[name], name, value) if name in types else value
        for name, value in params.items()
        if not isinstance(value, GivenList)
    }


def _evaluator(
    compiled: Compiled,
    catalog: Catalog,
    context: ExecutionContext,
    inputs: Inputs,
    results: Results,
    usage: Usage,
) -> Evaluator:
    context.limits.poll()
    planned, keep = compiled.planned, Keeps(compiled.heads, usage.lasting)
    asked = frozenset(ask.name for ask in compiled.asks)
    # Rewritten queries may read relations that no rule of the program reads.
    ends = usage.ends and not any(name.startswith("?") for name in asked)
    if ends and not context.metrics.lasting:
        read = _read_by_rules(compiled, catalog, context, inputs, asked)
        inputs.kept = columns_read(compiled.checked, read)
        checked = reading_only(compiled.checked, inputs.kept)
        plans = Plans(planned.plans.orders)
        planned = PlannedProgram(checked, planned.texts, planned.validity, plans)

    let_go, facts = (
        inputs.let_go if ends else None,
        partial(catalog.texts.facts, own=compiled.outline),
    )
    given = context, planned, inputs, facts, results, keep, asked, let_go
    on_cpu = ends or (context.device is CPU and context.later is None)
    kept = None if on_cpu else _kept_plans(compiled, catalog, context)
    return Evaluator(*given, number=catalog.number, kept_plans=kept)


def _kept_plans(
    compiled: Compiled, catalog: Catalog, context: ExecutionContext
) -> KeptPlans | None:
    """The plans of a program over this catalog, which later queries find again; only for a GPU, if
    the program reads nothing but the catalog, and nobody asks how it was planned."""
    if context.metrics.lasting or context.cluster is not None:
        return None
    reads_more = compiled.sources or compiled.checked.lists or context.scope.params
    if reads_more or compiled.limit_sizes or context.passes is not None:
        return None
    planned = compiled.planned
    known = catalog.plans.get(id(planned))
    own = planned, context.settings, context.device
    if known is None or known[0] is not planned or known[1] != own[1] or known[2] is not own[2]:
        if len(catalog.plans) >= MOST_PROGRAMS:
            catalog.plans.clear()
        known = catalog.plans[id(planned)] = (*own, KeptPlans())
    found: KeptPlans = known[3]
    return found


def _read_by_rules(
    compiled: Compiled,
    catalog: Catalog,
    context: ExecutionContext,
    inputs: Inputs,
    asked: Collection[str],
) -> set[str]:
    """The declared relations that only have `.input`s and are read only by rules."""
    derived = compiled.planned.homes.keys()
    others = {*asked, *derived, *context.limit_sizes, *catalog.stored}
    return {
        name
        for name, sources in inputs.sources.items()
        if name not in others
        and name in compiled.checked.schemas
        and not catalog.texts.facts(name, compiled.outline)
        and all(directive.path is None for directive, _ in sources)
    }


def _afar(
    context: ExecutionContext, path: str, name: str, schema: Schema | None
) -> Relation | None:
    """The relation of a path that a cluster's workers read themselves."""
    spread = context.settings.spread
    if context.cluster is None or spread == "never":
        return None
    wanted = Wanted(name, context.memory, None, schema, spread == "partition")
    return loaded_afar(context.cluster, path, wanted, context.scope.symbols)
