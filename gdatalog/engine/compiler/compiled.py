"""What the compiler makes of a text: its statements, checked, with the plans of its rules."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any
from weakref import ref

from gdatalog.cancellation import current_watch
from gdatalog.engine.catalog.snapshot import Catalog
from gdatalog.engine.catalog.sources import Source
from gdatalog.engine.catalog.texts import Outline, nodes_of
from gdatalog.engine.compiler.plans import Plans
from gdatalog.engine.facts.outputs import destination
from gdatalog.errors import Caution, UsageError
from gdatalog.parser import Program
from gdatalog.parser import syntax as s
from gdatalog.parser.fact_statements import last_name
from gdatalog.planner.check import AnswerCut, Checked, CheckedQuery, Stratum
from gdatalog.planner.check.statements import names_of
from gdatalog.planner.check.validity import VALID, Validity
from gdatalog.planner.check.walk import walk
from gdatalog.planner.rewrite.magic_sets import MagicProgram
from gdatalog.records import dataclass, field
from gdatalog.storage.relation import Relation
from gdatalog.storage.symbols import SymbolTable


class PlannedProgram:
    """A checked program, and what has been planned of it. `texts`: the objects whose ids are in its
    cache key, to keep them alive. `validity`: that of the statements that the database keeps.
    `demanded`: its rewritings for parts of relations. `lookups`: the `IndexLookup`s of strata that
    are one, over any rows. `homes`: the stratum of each derived relation."""

    def __init__(
        self,
        checked: Checked,
        texts: Sequence[object] = (),
        validity: Validity = VALID,
        plans: Plans | None = None,
    ) -> None:
        self.checked, self.texts, self.validity = checked, texts, validity
        self.plans = Plans() if plans is None else plans
        self.demanded: dict[Hashable, Demanded] = {}
        self.lookups: dict[tuple[str, ...], Any] = {}
        self.homes = {name: stratum for stratum in checked.strata for name in stratum.relations}
        self._reads: dict[tuple[str, ...], list[str]] = {}
        self._params: dict[tuple[str, ...], frozenset[str]] = {}
        self._interned: SymbolTable | None = None

    def reads(self, stratum: Stratum) -> list[str]:
        """The relations outside a stratum that its rules read, in a fixed order."""
        found = self._reads.get(stratum.relations)
        if found is None:
            current_watch().poll()
            names = {atom.name for rule in stratum.rules for atom in rule.atoms}
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
    """One request of a program: an output, a printsize or a query, of which some rows may be asked
    for."""

    name: str
    directive: s.Directive | None
    cut: AnswerCut | None = None


class Compiled:
    """A text, compiled together with the rules that the database keeps."""

    def __init__(
        self,
        program: Program,
        rules: tuple[s.Statement, ...],
        asking: tuple[s.Statement, ...],
        outline: Outline,
        sources: Mapping[str, Sequence[Source]],
        planned: PlannedProgram,
        over: tuple[object, object],
    ) -> None:
        """`rules`: the statements that the database would keep; `asking`: its queries and outputs.
        `sources`: the files of relations. `over`: the texts and schemas that it was checked with.
        """
        self.program, self.rules, self.asking = program, rules, asking
        self.outline, self.sources, self.planned, self.over = outline, sources, planned, over
        self.checked = checked = planned.checked
        # Which of the statements that the database keeps are valid.
        self.validity = planned.validity
        # The relations that the text's own rules define.
        defining = [each for each in rules if isinstance(each, s.Rule | s.Facts)]
        self.heads = frozenset(chain.from_iterable(map(names_of, defining)))
        # The number of rows at which `.limitsize` stops a relation.
        self.limit_sizes = _limit_sizes(checked.directives)
        # The text's queries and requests, in order.
        own = {query.span for query in asking}
        self.queries = [query for query in checked.queries if query.span in own]
        self.asks = _asks(program, self.queries)
        # The parameters in the text, in order, and whether they are lists.
        self.parameters = parameters_in(outline.statements)
        # The cautions of this text, without those of texts that are kept.
        self.cautions: Sequence[Caution] = ()
        if checked.cautions:
            texts = {each.span.source for each in (*rules, *asking)}
            self.cautions = [
                caution
                for caution in checked.cautions
                if caution.span is None or caution.span.source in texts
            ]

    def is_over(self, catalog: Catalog) -> bool:
        """Whether it was compiled with the texts and schemas of this catalog."""
        return self.over[0] is catalog.texts and self.over[1] is catalog.schemas

    @property
    def kept_outline(self) -> Outline:
        """What the checks see of the statements that the database would keep."""
        return self.outline.without(self.asking)

    @property
    def last(self) -> str | None:
        """The relation of the text's last rule or fact."""
        for each in reversed(self.rules):
            if isinstance(each, s.Facts):
                return last_name(each)
            if isinstance(each, s.Rule):
                return each.heads[0].name
        return None

    @property
    def cut(self) -> AnswerCut | None:
        """The rows that the only query asks for; None: all."""
        return self.queries[0].cut if self.queries else None

    @property
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


def _limit_sizes(directives: Iterable[s.Directive]) -> Mapping[str, int]:
    sizes: dict[str, int] = {}
    for directive in directives:
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


def _asks(program: Program, queries: Iterable[CheckedQuery]) -> list[Ask]:
    """The requests of a text, in order. A repeated directive is one request."""
    asked = {query.span: query for query in queries}
    found: list[Ask] = []
    done: set[tuple[Any, ...]] = set()

    def direct(directive: s.Directive, names: Sequence[str]) -> None:
        """Adds the requests of a directive that are not there yet."""
        for name in names:
            how = () if directive.kind == "printsize" else destination(directive)
            if (directive.kind, name, how) not in done:
                done.add((directive.kind, name, how))
                found.append(Ask(name, directive))

    for statement in program.statements:
        if isinstance(statement, s.Query):
            query = asked[statement.span]
            found.append(Ask(query.relation, None, query.cut))
        elif isinstance(statement, s.Directive) and statement.kind in ("output", "printsize"):
            direct(statement, statement.names)
        elif isinstance(statement, s.Decl):
            for kind in [k for k in ("output", "printsize") if k in statement.qualifiers]:
                directive = s.Directive(kind, statement.names, span=statement.span)
                direct(directive, statement.names)
    return found


def parameters_in(statements: Sequence[s.Statement]) -> dict[str, bool]:
    """The parameters in statements, in order, and whether they are lists."""
    found = {}
    for node in chain.from_iterable(map(nodes_of, statements)):
        for part in walk(node):
            if isinstance(part, s.Param | s.ListParam):
                found[part.name] = isinstance(part, s.ListParam)
    return found
