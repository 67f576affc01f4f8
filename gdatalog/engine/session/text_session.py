"""Evaluates a text: with the database's views and data, and its own inputs.

A `Session` lives for one call. It adds the text to the database's rules, reads the input files that
it needs, checks everything together, and evaluates the requested relations.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, timedelta
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from gdatalog.calls import accounted
from gdatalog.engine.context import ExecutionContext, Wanted
from gdatalog.engine.facts import Files, destination, find_include, read_program
from gdatalog.engine.facts.inputs import (
    Afar,
    GivenList,
    Inputs,
    Source,
    holds_many,
    input_sources,
    list_relation,
)
from gdatalog.engine.planned_rules import atoms
from gdatalog.engine.programs.folders import Folders
from gdatalog.engine.programs.prepared import CheckedText, Plans, Prepared
from gdatalog.engine.programs.remembered import Memory
from gdatalog.engine.programs.texts import Outline, ProgramTexts, nodes_of
from gdatalog.engine.session.evaluation import Evaluation
from gdatalog.engine.session.magic_sets import answer
from gdatalog.engine.session.untrusted import check_program
from gdatalog.errors import Caution, DataError, Error, UsageError, meant
from gdatalog.parser import Program, expand_includes
from gdatalog.parser import syntax as s
from gdatalog.parser.facts import last_name
from gdatalog.planner.check import Checked, CheckedQuery, Schema
from gdatalog.planner.check.validity import Validity
from gdatalog.planner.check.walk import names_of, walk
from gdatalog.planner.rewrite.columns_read import columns_read, reading_only
from gdatalog.records import dataclass, field, replace
from gdatalog.storage.relation import Relation
from gdatalog.values import (
    INT_MAX,
    INT_MIN,
    ParamType,
    Value,
    is_unicode,
    nanoseconds_of,
    plain,
)


@dataclass(frozen=True, slots=True)
class Ask:
    """One request of a program: an output, a printsize or a query."""

    name: str
    directive: s.Directive | None


@dataclass(frozen=True, slots=True)
class SeenText:
    """A checked text, and the files that it reads. `rules`: the statements that the database would
    keep; `asking`: its queries and outputs."""

    program: Program  # its id is in the cache key, so it must stay alive
    rules: tuple[s.Statement, ...]
    asking: tuple[s.Statement, ...]
    outline: Outline
    sources: Mapping[str, Sequence[Source]]
    text: CheckedText


def _asks(statement: s.Statement) -> bool:
    return isinstance(statement, s.Query) or (
        isinstance(statement, s.Directive) and statement.kind in ("output", "printsize")
    )


@dataclass(slots=True)
class Session:
    """One text over the content of a database.

    The caller's `context` has no parameters and `.limitsize`s: the session adds those of its text.
    `files`: those that the text may use. `warn`: receives cautions.
    """

    stored: Mapping[str, Relation]
    texts: ProgramTexts
    program: Program
    context: ExecutionContext
    files: Files
    folders: Folders
    warn: Callable[[Caution], None]
    remembered: Memory
    prepared: Prepared
    params: Mapping[str, Any] = field(default_factory=dict)
    lasting: bool = False  # whether the database keeps the text's rules, and caches their results
    whole: bool = True  # whether the text is complete: then a relation without data is a mistake
    ends: bool = False  # whether no call follows the text's own requests
    known: Mapping[str, Schema] | None = None  # the schemas of `stored`, if the caller has them
    seen: SeenText = field(init=False)
    own: Outline | None = field(init=False)  # of the text, until the database keeps it
    text: CheckedText = field(init=False)
    checked: Checked = field(init=False)
    inputs: Inputs = field(init=False)
    evaluation: Evaluation = field(init=False)

    def __post_init__(self) -> None:
        symbols = self.context.scope.symbols
        if self.context.scope.bounded:
            check_program(self.program, self.texts, self.folders)
        if any(isinstance(statement, s.Include) for statement in self.program.statements):
            self.program = expand_includes(
                self.program,
                lambda path, span: read_program(
                    find_include(path, span, self.folders), self.files, self.warn, span
                ),
            )
        given = {name: self._parameter(name, value) for name, value in self.params.items()}
        self.params = {name: value for name, (_, value) in given.items()}
        types = {name: kind for name, (kind, _) in given.items()}
        remote = partial(_afar, self.context)
        before = self.prepared.seen(self.texts, self.known)
        key = (id(self.program), self.whole, tuple(types.items()))
        found = None if before is None else before.get(key)
        if found is None:
            found = self._check(types, remote)
            if before is not None and not found.sources:  # files may change
                before.put(key, found)
        self.seen, self.text, self.checked = found, found.text, found.text.checked
        self.own = found.outline
        made = partial(list_relation, self.params, symbols, self.prepared.lists)
        lists = {name: partial(made, values) for name, values in self.checked.lists.items()}
        schemas, files, warn = self.checked.schemas, self.files, self.warn
        self.inputs = Inputs(
            self.stored, found.sources, schemas, symbols, files, self.prepared, remote, warn, lists
        )
        for name, values in self.checked.lists.items():
            if values.type == "symbol":  # before anything reads the ranks of strings
                self.inputs[name]
        self.context = self._context()
        self.evaluation = self._evaluation(self.inputs)

    def _check(self, types: Mapping[str, ParamType], remote: Afar) -> SeenText:
        """Checks the text together with the database's rules and schemas."""
        program, context = self.program, self.context
        outline = Outline.of(program.statements)
        kept = self.texts.seen()
        said = () if self.texts.says_all(outline) else outline.statements
        sources = input_sources(
            [*((own.outline.statements, own.folders) for own in kept), (said, self.folders)]
        )
        known = dict(schemas_of(self.stored) if self.known is None else self.known)
        # Files of undeclared relations are read first: their types come from the data.
        decls = [each for each in (*self.texts.outline(), *said) if isinstance(each, s.Decl)]
        declared = {name for decl in decls for name in decl.names}
        symbols = context.scope.symbols
        early = Inputs({}, sources, {}, symbols, self.files, self.prepared, remote, self.warn)
        own = set(map(id, said))
        unread: dict[int, Error] = {}
        for name, (first, *_) in sources.items():
            directive, _ = first
            if name not in declared and name not in known and directive.path is not None:
                try:
                    with accounted(context.limits, context.device.name):
                        relation = early.file(first, name)
                except DataError as error:
                    if id(directive) in own:
                        raise
                    unread[id(directive)] = error
                    continue
                known[name] = Schema(name, relation.columns, relation.types, directive.span)
        outlines = [each.outline for each in kept]
        notes = None if context.passes is None else context.passes.program
        text = self.prepared.check(outlines, program, said, known, types, self.whole, unread, notes)
        asks = tuple(filter(_asks, program.statements))
        context.limits.poll()
        asked = set(map(id, asks))
        rules = tuple(each for each in program.statements if id(each) not in asked)
        context.limits.poll()
        return SeenText(program, rules, asks, outline, sources, text)

    def _parameter(self, name: str, value: object) -> tuple[ParamType, Value | GivenList]:
        try:
            return parameter(name, value)
        except DataError as error:
            for node in chain.from_iterable(map(nodes_of, self.program.statements)):
                for part in walk(node):
                    if isinstance(part, s.Param | s.ListParam) and part.name == name:
                        error.span = error.span or part.span
            raise

    def kept_params(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters that the database keeps: copies of lists, which the user may change."""
        read = self.params
        return {n: read[n] if isinstance(read[n], GivenList) else v for n, v in given.items()}

    def _context(self) -> ExecutionContext:
        """The execution context, with the text's own settings."""
        context, types = self.context, self.checked.param_types
        params = {
            name: float(value) if types.get(name) == "float" else value
            for name, value in self.params.items()
            if not isinstance(value, GivenList)
        }
        scope = replace(context.scope, params=params)
        return replace(context, scope=scope, limit_sizes=self._limit_sizes())

    def _evaluation(self, stored: Inputs) -> Evaluation:
        self.context.limits.poll()
        rules = (each for each in self.seen.rules if isinstance(each, s.Rule | s.Facts))
        own = {name for each in rules for name in names_of(each)}
        self.context.limits.poll()
        lasting = self.lasting
        asked = frozenset(ask.name for ask in self.asks())
        # Rewritten queries may read relations that no rule of the program reads.
        ends = self.ends and not any(name.startswith("?") for name in asked)
        text = self.text
        if ends and not self.context.metrics.lasting:
            stored.kept = columns_read(self.checked, self._read_by_rules(stored, asked))
            checked = reading_only(text.checked, stored.kept)
            text = replace(text, checked=checked, plans=Plans(text.plans.orders), reads={})

        def keep(names: Collection[str]) -> bool:
            if any(name.startswith("?") for name in names):
                return False
            return lasting or own.isdisjoint(names)

        let_go, facts = stored.let_go if ends else None, partial(self.texts.facts, own=self.own)
        known = self.remembered
        return Evaluation(self.context, text, stored, facts, known, keep, asked, let_go)

    def _read_by_rules(self, inputs: Inputs, asked: Collection[str]) -> set[str]:
        """The declared relations that only have `.input`s and are read only by rules."""
        derived = {name for stratum in self.checked.strata for name in stratum.relations}
        others = {*asked, *derived, *self.context.limit_sizes, *self.stored}
        return {
            name
            for name, sources in inputs.sources.items()
            if name not in others
            and name in self.checked.schemas
            and not self.texts.facts(name, self.own)
            and all(directive.path is None for directive, _ in sources)
        }

    @property
    def validity(self) -> Validity:
        """Which of the statements that the database keeps are valid."""
        return self.text.validity

    def kept_in(self, texts: ProgramTexts) -> None:
        """Called when the database keeps the text's rules: they are among these texts now."""
        self.texts, self.own, self.evaluation.facts = texts, None, texts.facts

    def kept_outline(self) -> Outline:
        """What the checks see of the statements that the database would keep."""
        return self.seen.outline.without(self.seen.asking)

    def _limit_sizes(self) -> dict[str, int]:
        sizes = {}
        for directive in self.checked.directives:
            if directive.kind == "limitsize":
                text = dict(directive.options).get("n", "")
                if not text.isdecimal():
                    raise UsageError(
                        ".limitsize needs a number of rows",
                        directive.span,
                        hint=f".limitsize {directive.names[0]}(n=1000000)",
                    )
                sizes.update(dict.fromkeys(directive.names, int(text)))
        return sizes

    @property
    def cautions(self) -> list[Caution]:
        """The cautions of this text and its evaluation, without those reported before."""
        sources = {each.span.source for each in (*self.seen.rules, *self.seen.asking)}
        found = [c for c in self.checked.cautions if c.span is None or c.span.source in sources]
        return [*found, *self.context.scope.cautions.values()]

    def ignored(self, given: Iterable[str]) -> list[Caution]:
        """Warnings about given parameters that neither the text nor a kept rule reads."""
        known = _parameters(self.seen.outline)
        unread = [name for name in given if name not in known]
        if unread:
            known.update(*(_parameters(kept.outline) for kept in self.texts.seen()))
        near = {name: meant(str(name), known) for name in unread if name not in known}
        others = "parameters are " + ", ".join(f"${name}" for name in sorted(known))
        return [
            Caution(
                f"the parameter `${name}` is not read, and has no effect",
                hint=f"did you mean `${other}`?" if other else others if known else None,
            )
            for name, other in near.items()
        ]

    def own_queries(self) -> list[CheckedQuery]:
        """The text's queries, in order."""
        own = {query.span for query in self.seen.asking}
        return [query for query in self.checked.queries if query.span in own]

    def asks(self) -> list[Ask]:
        """The text's requests, in order. A repeated directive is one request."""
        queries = {query.span: query.relation for query in self.own_queries()}
        found: list[Ask] = []
        done: set[tuple[Any, ...]] = set()

        def direct(directive: s.Directive, names: Sequence[str]) -> None:
            """Adds the requests of a directive that are not there yet."""
            for name in names:
                how = () if directive.kind == "printsize" else destination(directive)
                if (directive.kind, name, how) not in done:
                    done.add((directive.kind, name, how))
                    found.append(Ask(name, directive))

        for statement in self.program.statements:
            if isinstance(statement, s.Query):
                found.append(Ask(queries[statement.span], None))
            elif isinstance(statement, s.Directive) and statement.kind in ("output", "printsize"):
                direct(statement, statement.names)
            elif isinstance(statement, s.Decl):
                for kind in [k for k in ("output", "printsize") if k in statement.qualifiers]:
                    directive = s.Directive(kind, statement.names, span=statement.span)
                    direct(directive, statement.names)
        return found

    def asked(self) -> str:
        """The only relation that a query's text requests."""
        queries = self.own_queries()
        if len(queries) > 1:
            raise UsageError(
                f"a query has one answer, and this text asks {len(queries)} times",
                queries[1].span,
                hint="call db.query once for each `?-`",
            )
        if queries:
            return queries[0].relation
        own = [each for each in self.seen.rules if isinstance(each, s.Rule | s.Facts)]
        if own:
            last = own[-1]
            return last.heads[0].name if isinstance(last, s.Rule) else last_name(last)
        if self.checked.last is None or not self.seen.rules:
            raise UsageError(
                "this text asks for nothing",
                hint="end it with `?- body.`, or with the rule whose relation you want",
            )
        return self.checked.last

    def relation(
        self, name: str, limit: int | None = None, most_rows: int | None = None
    ) -> Relation:
        """Returns a relation, or at most `limit` of its rows. Raises an error as soon as it finds
        more than `most_rows`."""
        cause = self.validity.broken.get(name)
        if cause is not None:
            raise cause.error_for(name)
        evaluation, limits = self.evaluation, self.context.limits
        with self.context.metrics.spending():
            if most_rows is None or (limit is not None and limit <= most_rows):
                return answer(evaluation, name, limit, self.whole_asks())
            limits.most_rows = name, most_rows
            found = answer(evaluation, name, most_rows + 1, self.whole_asks())
            limits.count(name, found.length)
            if evaluation.keep([name]):
                found = answer(evaluation, name, limit, self.whole_asks())  # for the next call
            return found

    def at_hand(self, name: str) -> Relation | None:
        """A relation whose rows are known; None if it would have to be evaluated or read first."""
        if not all(map(self.inputs.at_hand, self.evaluation.needed([name]))):
            return None
        return self.evaluation.known(name)

    def said(self, name: str) -> int | None:
        """The number of rows of a relation that has only kept facts."""
        if name in self.inputs or name in self.evaluation._home or self.own is not None:
            return None
        return self.texts.rows(name, self.checked.schemas[name].types)

    @contextmanager
    def reading_ahead(self) -> Iterator[None]:
        """Within this context, a thread reads the files that the text's outputs need, if it
        requests nothing else."""
        evaluation = self.evaluation
        if evaluation.let_go is None or self.context.cluster is not None:
            yield
            return
        strata = evaluation.strata_of(evaluation.asked)
        names = (atom.name for each in strata for rule in each.rules for atom in atoms(rule))
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
        asked = [ask.name for ask in self.asks() if not ask.name.startswith("?")]
        return self.evaluation.needed(asked) if asked else set()


def _parameters(outline: Outline) -> set[str]:
    """The names of the parameters in a text."""
    nodes = chain.from_iterable(map(nodes_of, outline.statements))
    parts = chain.from_iterable(map(walk, nodes))
    return {part.name for part in parts if isinstance(part, s.Param | s.ListParam)}


def schemas_of(stored: Mapping[str, Relation]) -> dict[str, Schema]:
    """The schemas of relations, by name."""
    return {name: Schema(name, held.columns, held.types) for name, held in stored.items()}


def parameter(name: str, value: object) -> tuple[ParamType, Value | GivenList]:
    """A parameter's type and value, from scalars of Python, NumPy or pandas, or from a collection
    of them."""
    if isinstance(value, GivenList):
        return value.type, value
    if isinstance(value, (bool, np.bool_)):
        return "bool", bool(value)
    if isinstance(value, np.timedelta64):  # a subclass of np.integer
        raise _no_value(name, value)
    if isinstance(value, (int, np.integer)):
        number = int(plain(value))
        if not INT_MIN <= number <= INT_MAX:
            raise DataError(f"the parameter ${name} does not fit into 64 bits: {number}")
        return "int", number
    if isinstance(value, (float, np.floating)):
        quantity = float(plain(value))
        if quantity != quantity:
            raise DataError(f"the parameter ${name} is NaN, which is not a value")
        return "float", quantity
    if isinstance(value, str):
        if not is_unicode(value):
            raise DataError(f"the parameter ${name} holds half a surrogate pair: {value!r}")
        return "symbol", plain(value)
    if isinstance(value, (date, np.datetime64)):
        if value != value:
            raise DataError(f"the parameter ${name} is NaT, which is not a value")
        when = _nanoseconds(value)
        if not INT_MIN < when <= INT_MAX:  # the least value means NaT
            raise DataError(f"the parameter ${name} is no time from 1677 to 2262: {value}")
        return "timestamp", when
    if holds_many(value):
        many = GivenList.of(name, value)
        return many.type, many
    raise _no_value(name, value)


def _no_value(name: str, value: object) -> DataError:
    found = "None" if value is None else f"of type {type(value).__name__}"
    hint = "parameters are ints, floats, strings, bools and timestamps, and lists of these"
    if isinstance(value, timedelta | np.timedelta64):
        hint = f"give a duration's seconds: {name} / np.timedelta64(1, 's')"
        if isinstance(value, timedelta):
            hint = f"give a duration's seconds: {name}.total_seconds()"
    return DataError(f"the parameter ${name} cannot be {found}", hint=hint)


def _nanoseconds(value: date | np.datetime64) -> int:
    """A time as nanoseconds since 1970; times without a zone are UTC."""
    if not isinstance(value, np.datetime64):
        return nanoseconds_of(value)
    seconds = int(value.astype("datetime64[s]").astype(np.int64))
    near = abs(seconds) < INT_MAX // 10**9
    return int(value.astype("datetime64[ns]").astype(np.int64)) if near else seconds * 10**9


def _afar(
    context: ExecutionContext, path: str, name: str, schema: Schema | None
) -> Relation | None:
    """The relation of a path that a cluster's workers read themselves."""
    spread = context.knobs.spread
    if context.cluster is None or spread == "never":
        return None
    wanted = Wanted(name, context.memory, None, schema, spread == "partition")
    return context.cluster.load(path, wanted, context.scope.symbols)
