"""`Compiler`: parses and checks texts, and keeps what it made of recent ones.

A text is parsed, checked and planned once while its inputs stay the same. The checks depend on the
statements, the database's rules, the schemas of its data, and the types of parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from gdatalog.cancellation import LONG_TEXT, apart, current_watch
from gdatalog.engine.catalog.folders import Folders
from gdatalog.engine.catalog.snapshot import Catalog, schema_of
from gdatalog.engine.catalog.sources import Source, input_sources
from gdatalog.engine.catalog.texts import Outline
from gdatalog.engine.compiler.compiled import Compiled, PlannedProgram
from gdatalog.engine.compiler.constants import SharedText, TextForm, TextShape
from gdatalog.engine.compiler.plans import Plans
from gdatalog.engine.recent import Recent
from gdatalog.errors import Caution, DataError, Error, SourceText
from gdatalog.overhead import spending
from gdatalog.parser import Program, parse_with_cautions
from gdatalog.parser import syntax as s
from gdatalog.planner.check import Schema
from gdatalog.planner.check.validity import VALID, Validity, check_over, check_with
from gdatalog.planner.order.order_cache import Orders
from gdatalog.planner.passes import PassNotes
from gdatalog.planner.program import rewritten
from gdatalog.records import dataclass, replace
from gdatalog.storage.relation import Relation
from gdatalog.values import ParamType

# The most characters of the texts of cached programs. A character takes about 40 bytes; statements
# that the database keeps count for each text that is checked with them.
CHECKED = 4_000_000
MOST_RESULTS = 1024  # results of parsing, checking and compiling
LONGEST = 20_000  # characters: longer texts hold data and are rarely repeated


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a text is compiled in. `types`: those of parameters. `whole`: whether the text is
    complete: then a relation without data is a mistake. `folders`: those of its inputs. `read`
    reads an `.input` whose types come from its data. `notes`: what the passes do to the
    program."""

    catalog: Catalog
    types: Mapping[str, ParamType]
    whole: bool
    folders: Folders
    read: Callable[[Source, str], Relation]
    notes: PassNotes | None = None


class Compiler:
    """Compiles the texts of a database."""

    def __init__(self) -> None:
        self.orders = Orders()  # variable orders that the planner has found
        self._made = Recent[Any](MOST_RESULTS, CHECKED)

    def keeps(self, text: str) -> bool:
        """Whether what is made of a text is kept."""
        return len(text) <= LONGEST

    def parse(
        self, text: str, name: str, bare: bool, stored: bool
    ) -> tuple[Program, tuple[Caution, ...]]:
        """Parses a text; returns its program and warnings. `stored`: it may be stored on disk."""
        if not self.keeps(text):
            return parse_with_cautions(text, name, bare=bare)
        key = "parsed", text, name, bare
        found: tuple[Program, tuple[Caution, ...]] | None = self._made.get(key)
        if found is None:
            found = parse_with_cautions(text, name, bare=bare, stored=stored)
            self._made.put(key, found, len(text))
        return found

    def query(self, text: str, name: str) -> SharedText | tuple[Program, tuple[Caution, ...]]:
        """Parses a query's text, unless an earlier one differs from it in constants only: both are
        trusted."""
        if self._made.get(("parsed", text, name, True)) is not None:
            return self.parse(text, name, bare=True, stored=True)
        form = TextForm.of(text)
        shared = self._shared(form, text, name)
        if shared is not None:
            return shared
        parsed = self.parse(text, name, bare=True, stored=True)
        if form is not None and not parsed[1]:
            self._made.put(("shape", form.rest), TextShape(form, text, parsed[0]), len(text))
        return parsed

    def shared(self, text: str, name: str) -> SharedText | None:
        """What a text shares with those that differ from it in constants only."""
        return self._shared(TextForm.of(text), text, name)

    def _shared(self, form: TextForm | None, text: str, name: str) -> SharedText | None:
        shape: TextShape | None = None if form is None else self._made.get(("shape", form.rest))
        if form is None or shape is None:
            return None
        return SharedText.of(shape, form, SourceText(name, text))

    def compile(self, program: Program, around: Surroundings) -> Compiled:
        """Checks a text together with the database's rules and schemas."""
        catalog = around.catalog
        key = "compiled", id(program), around.whole, tuple(around.types.items())
        found: Compiled | None = self._made.get(key)
        if (
            found is not None
            and found.over[0] is catalog.texts
            and found.over[1] is catalog.schemas
        ):
            return found
        made = self._compile(program, around)
        if not made.sources:  # files may change
            self._made.put(key, made)
        return made

    def _compile(self, program: Program, around: Surroundings) -> Compiled:
        watch, catalog = current_watch(), around.catalog
        outline = Outline.of(program.statements)
        kept = catalog.texts.seen()
        said = () if catalog.texts.says_all(outline) else outline.statements
        sources = input_sources(
            [*((own.outline.statements, own.folders) for own in kept), (said, around.folders)]
        )
        known = dict(catalog.schemas)
        unread = _schemas_of_files(sources, said, around, known)
        outlines = [each.outline for each in kept]
        planned = self._checked(outlines, program, said, known, around, unread)
        asking = tuple(filter(_asks, program.statements))
        watch.poll()
        asked = set(map(id, asking))
        rules = tuple([each for each in program.statements if id(each) not in asked])
        watch.poll()
        over = catalog.texts, catalog.schemas
        return Compiled(program, rules, asking, outline, sources, planned, over)

    def _checked(
        self,
        outlines: Sequence[Outline],
        own: Program,
        said: Sequence[s.Statement],
        known: Mapping[str, Schema],
        around: Surroundings,
        unread: Mapping[int, Error],
    ) -> PlannedProgram:
        """Checks a text with the statements that the database keeps, those of `outlines`. The cache
        key has the ids of both.

        `said`: what the checks see of the text. `unread`: kept statements, by id, whose files
        cannot be read.
        """
        types, whole, notes = around.types, around.whole, around.notes
        errors = tuple([(at, str(error)) for at, error in unread.items()])
        data, params = tuple(known.items()), tuple(sorted(types.items()))
        over = tuple(map(id, outlines)), data, params, errors
        key = "checked", over, id(own) if said else None, whole
        found: PlannedProgram | None = self._made.get(key)
        if found is None:
            before: tuple[Validity, object] | None = self._made.get(("valid", over))
            valid = None if before is None else before[0]
            length, checked, validity = _length(said), None, VALID
            with spending("planning"):
                if said and notes is None:
                    over_kept = valid, said, known, types, whole
                    if length < LONG_TEXT:
                        checked = check_over(*over_kept)
                    else:
                        checked = apart(partial(check_over, *over_kept))
                if checked is None:
                    kept = [statement for outline in outlines for statement in outline.statements]
                    length += _length(kept)
                    every = kept, said, known, types, unread, valid, whole, notes
                    if length < LONG_TEXT:
                        checked, validity, alone = check_with(*every)
                    else:
                        checked, validity, alone = apart(partial(check_with, *every))
                    if alone is not None:
                        self._made.put(("valid", over), (alone, tuple(outlines)))
            plans = Plans(self.orders)
            found = PlannedProgram(rewritten(checked, notes), (*outlines, own), validity, plans)
            self._made.put(key, found, length)
        return found


def _schemas_of_files(
    sources: Mapping[str, Sequence[Source]],
    said: Sequence[s.Statement],
    around: Surroundings,
    known: dict[str, Schema],
) -> dict[int, Error]:
    """Adds the schemas of undeclared relations with files to those that are `known`: their types
    come from the data. Returns the errors of kept statements, by id, whose files cannot be read."""
    statements = [*around.catalog.texts.outline(), *said] if sources else ()
    decls = (each for each in statements if isinstance(each, s.Decl))
    declared = {name for decl in decls for name in decl.names}
    own = set(map(id, said))
    unread: dict[int, Error] = {}
    for name, (first, *_) in sources.items():
        directive, _ = first
        if name not in declared and name not in known and directive.path is not None:
            try:
                relation = around.read(first, name)
            except DataError as error:
                if id(directive) in own:
                    raise
                unread[id(directive)] = error
                continue
            known[name] = replace(schema_of(name, relation), span=directive.span)
    return unread


def _length(statements: Iterable[s.Statement]) -> int:
    """How many characters statements have."""
    return sum([each.span.end - each.span.start for each in statements])


def _asks(statement: s.Statement) -> bool:
    return isinstance(statement, s.Query) or (
        isinstance(statement, s.Directive) and statement.kind in ("output", "printsize")
    )
