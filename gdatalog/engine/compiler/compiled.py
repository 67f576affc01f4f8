"""What the compiler makes of a text: its statements, checked, with the plans of its rules."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import chain
from typing import Any
from weakref import ref

from gdatalog.cancellation import current_watch
from gdatalog.engine.catalog.snapshot import Catalog
from gdatalog.engine.catalog.sources import Source
from gdatalog.engine.catalog.texts import Outline, nodes_of
from gdatalog.engine.compiler.plans import Plans
from gdatalog.engine.facts.outputs import destination
from gdatalog.engine.planned_rules import atoms
from gdatalog.errors import Caution, UsageError
from gdatalog.parser import Program
from gdatalog.parser import syntax as s
from gdatalog.parser.fact_statements import last_name
from gdatalog.planner.check import Checked, CheckedQuery, Stratum
from gdatalog.planner.check.statements import names_of
from gdatalog.planner.check.validity import VALID, Validity
from gdatalog.planner.check.walk import walk
from gdatalog.planner.rewrite.magic_sets import MagicProgram
from gdatalog.records import cached_property, dataclass, field
from gdatalog.storage.relation import Relation
from gdatalog.storage.symbols import SymbolTable


@dataclass(slots=True, eq=False)
class PlannedProgram:
    """A checked program, and what has been planned of it. `texts`: the objects whose ids are in its
    cache key, to keep them alive. `validity`: that of the statements that the database keeps.
    `demanded`: its rewritings for parts of relations. `lookups`: the `IndexLookup`s of strata that
    are one, over any rows."""

    checked: Checked
    texts: Sequence[object] = ()
    validity: Validity = VALID
    plans: Plans = field(default_factory=Plans)
    demanded: dict[Hashable, Demanded] = field(default_factory=dict)
    lookups: dict[tuple[str, ...], Any] = field(default_factory=dict)
    homes: Mapping[str, Stratum] = field(init=False)  # the stratum of each derived relation
    _reads: dict[tuple[str, ...], list[str]] = field(default_factory=dict)
    _params: dict[tuple[str, ...], frozenset[str]] = field(default_factory=dict)
    _interned: SymbolTable | None = None

    def __post_init__(self) -> None:
        self.homes = {name: s for s in self.checked.strata for name in s.relations}

    def reads(self, stratum: Stratum) -> list[str]:
        """The relations outside a stratum that its rules read, in a fixed order."""
        found = self._reads.get(stratum.relations)
        if found is None:
            current_watch().poll()
            names = {atom.name for rule in stratum.rules for atom in atoms(rule)}
            found = self._reads[stratum.relations] = sorted(names.difference(stratum.relations))
        return found

    def params(self, stratum: Stratum) -> frozenset[str]:
        """The parameters that a stratum's rules read."""
        found = self._params.get(stratum.relations)
        if found is None:
            parts = chain.from_iterable(rule.parts for rule in stratum.rules)
            found = frozenset(part.name for part in parts if isinstance(part, s.Param))
            self._params[stratum.relations] = found
        return found

    def intern(self, symbols: SymbolTable) -> None:
        """Puts all symbols of the program into the symbol table."""
        if self._interned is symbols:
            return
        for rule in chain.from_iterable(stratum.rules for stratum in self.checked.strata):
            for part in rule.parts:
                if isinstance(part, s.Const) and part.type == "symbol":
                    symbols.intern(str(part.value))
        self._interned = symbols


@dataclass(slots=True, eq=False)
class Demanded:
    """A program rewritten for a part of one relation. `planned` is None if that does not pay.
    `looked_at`: the relations whose statistics it depends on. `covered`: why the whole relation was
    evaluated the last time."""

    program: MagicProgram
    planned: PlannedProgram | None
    looked_at: Mapping[str, ref[Relation]] = field(default_factory=dict)
    covered: str = ""


@dataclass(frozen=True, slots=True)
class Ask:
    """One request of a program: an output, a printsize or a query."""

    name: str
    directive: s.Directive | None


@dataclass(frozen=True, eq=False)
class Compiled:
    """A text, compiled together with the rules that the database keeps.

    `rules`: the statements that the database would keep; `asking`: its queries and outputs.
    `sources`: the files of relations. `over`: the texts and schemas that it was checked with.
    """

    program: Program
    rules: tuple[s.Statement, ...]
    asking: tuple[s.Statement, ...]
    outline: Outline
    sources: Mapping[str, Sequence[Source]]
    planned: PlannedProgram
    over: tuple[object, object]

    @property
    def checked(self) -> Checked:
        return self.planned.checked

    def is_over(self, catalog: Catalog) -> bool:
        """Whether it was compiled with the texts and schemas of this catalog."""
        return self.over[0] is catalog.texts and self.over[1] is catalog.schemas

    @property
    def validity(self) -> Validity:
        """Which of the statements that the database keeps are valid."""
        return self.planned.validity

    @cached_property
    def cautions(self) -> Sequence[Caution]:
        """The cautions of this text, without those of texts that are kept."""
        if not self.checked.cautions:
            return ()
        sources = {each.span.source for each in (*self.rules, *self.asking)}
        return [c for c in self.checked.cautions if c.span is None or c.span.source in sources]

    @cached_property
    def heads(self) -> frozenset[str]:
        """The relations that the text's own rules define."""
        rules = (each for each in self.rules if isinstance(each, s.Rule | s.Facts))
        return frozenset([name for each in rules for name in names_of(each)])

    @cached_property
    def last(self) -> str | None:
        """The relation of the text's last rule or fact."""
        for each in reversed(self.rules):
            if isinstance(each, s.Facts):
                return last_name(each)
            if isinstance(each, s.Rule):
                return each.heads[0].name
        return None

    @cached_property
    def kept_outline(self) -> Outline:
        """What the checks see of the statements that the database would keep."""
        return self.outline.without(self.asking)

    @cached_property
    def limit_sizes(self) -> Mapping[str, int]:
        """The number of rows at which `.limitsize` stops a relation."""
        sizes: dict[str, int] = {}
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

    @cached_property
    def queries(self) -> Sequence[CheckedQuery]:
        """The text's queries, in order."""
        own = {query.span for query in self.asking}
        return [query for query in self.checked.queries if query.span in own]

    @cached_property
    def asks(self) -> Sequence[Ask]:
        """The text's requests, in order. A repeated directive is one request."""
        queries = {query.span: query.relation for query in self.queries}
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

    @cached_property
    def asked(self) -> str:
        """The only relation that a query's text requests."""
        if len(self.queries) > 1:
            raise UsageError(
                f"a query has one answer, and this text asks {len(self.queries)} times",
                self.queries[1].span,
                hint="call db.query once for each `?-`",
            )
        if self.queries:
            return self.queries[0].relation
        if self.last is not None:
            return self.last
        if self.checked.last is None or not self.rules:
            raise UsageError(
                "this text asks for nothing",
                hint="end it with `?- body.`, or with the rule whose relation you want",
            )
        return self.checked.last

    @cached_property
    def parameters(self) -> Mapping[str, bool]:
        """The parameters in the text, in order, and whether they are lists."""
        return parameters_in(self.outline.statements)


def parameters_in(statements: Sequence[s.Statement]) -> dict[str, bool]:
    """The parameters in statements, in order, and whether they are lists."""
    found = {}
    for node in chain.from_iterable(map(nodes_of, statements)):
        for part in walk(node):
            if isinstance(part, s.Param | s.ListParam):
                found[part.name] = isinstance(part, s.ListParam)
    return found
