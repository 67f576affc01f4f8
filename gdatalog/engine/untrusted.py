"""Limits for untrusted texts: `connect(untrusted=True)`, `gdatalog --untrusted`.

Memory and time have limits, and this module bounds everything that these do not cover: the memory
of parsing and planning grows with the size of a program, and compilation cannot be interrupted. So
rules run breadth-first, on the CPU of this process. `cpu_ops/linear_match.py` bounds `match`,
and `cpu_ops/texts.py` the length of strings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod

import numpy as np

from gdatalog.engine.catalog.fact_list import number_of
from gdatalog.engine.catalog.folders import Folders
from gdatalog.engine.catalog.texts import Outline, ProgramTexts, nodes_of
from gdatalog.engine.facts.outputs import to_stdout
from gdatalog.errors import Error, SourceText, Span, UsageError, raise_together
from gdatalog.parser import syntax as s
from gdatalog.parser.fact_statements import one_by_one
from gdatalog.planner.check.statements import names_of
from gdatalog.planner.check.walk import Node, children, walk
from gdatalog.storage.relation import Relation
from gdatalog.storage.symbols import SymbolTable

# Parsing takes 10 us and up to 400 bytes for a character: a text of maximal length takes
# less than the time and a fraction of the memory.
CHARACTERS = 200_000
# The checks read all kept statements for each new text.
STATEMENTS = 1_000  # facts of one relation count as one
FACTS = 100_000  # that are kept
# Up to these sizes a rule is planned in milliseconds, and its plan is small.
ATOMS = 100
ALTERNATIVES = 64  # of a body, when `;` is distributed over `,`
PARTS = 2_000  # variables, constants, operators, comparisons, atoms
COLUMNS = 100
TEXTS = 16  # unused strings that programs created take at most this part of the memory limit
# At the prompt each new line rescans its statement.
SCANNED = 1_000_000  # characters of a statement, times its lines


def without_idle_texts(
    symbols: SymbolTable, memory: int, relations: Iterable[Relation]
) -> SymbolTable | None:
    """A symbol table with only the strings that some relations hold; None while programs have
    created few strings."""
    if symbols.made * TEXTS < memory:
        return None
    used = np.zeros(len(symbols), dtype=np.bool_)
    for relation in relations:
        for at, kind in enumerate(relation.types):
            if kind == "symbol":
                for block in relation.blocks(distinct=False):
                    used[block[at]] = True
    return symbols.keeping(used)


def check_length(text: str, name: str) -> None:
    """Rejects a text that is too long to parse."""
    if len(text) > CHARACTERS:
        span = Span(SourceText(name, text), CHARACTERS, CHARACTERS + 1)
        raise _refused(f"a program of {len(text):,} characters", CHARACTERS, span)


def waits_too_long(text: str) -> bool:
    """Whether an unfinished statement at the prompt has become too long."""
    return len(text) * (1 + text.count("\n")) > SCANNED


def check_program(program: s.Program, texts: ProgramTexts, folders: Folders) -> None:
    """Rejects a program that names a file, or is too large together with the kept `texts`."""
    errors: list[Error] = []
    own = Outline.of(program.statements)
    count = sum(max(1, len(names_of(statement))) for statement in texts.outline())
    for statement in own.statements:
        count += max(1, len(names_of(statement)))
        if count > STATEMENTS:
            what = f"more than {STATEMENTS:,} statements (facts of one relation are one)"
            errors.append(_refused(what, STATEMENTS, statement.span))
            break
    facts = sum(map(number_of, own.facts.values()))
    if facts and facts + texts.number_of_facts > FACTS:
        what = f"{facts + texts.number_of_facts:,} facts"
        errors.append(_refused(what, FACTS, program.statements[-1].span))
    for statement in program.statements:
        errors += _wrong_in(statement, folders)
    raise_together(errors)


def _refused(what: str, most: int, span: Span) -> UsageError:
    return UsageError(
        f"{what}: an untrusted text may have {most:,}",
        span,
        hint="the database was opened with untrusted=True",
    )


def _wrong_in(statement: s.Statement, folders: Folders) -> Iterator[Error]:
    if isinstance(statement, s.Facts):
        if any(len(each.columns) > COLUMNS for each in statement.relations):
            for fact in one_by_one([statement]):
                yield from _wrong_in(fact, folders)
        return
    if _names_a_file(statement, folders):
        yield UsageError(
            "an untrusted text may not read or write files",
            statement.span,
            hint="the host loads data, db.load(...); answers go to the host: ?- R. or "
            ".output R(IO=stdout)",
        )
    if isinstance(statement, s.Decl) and len(statement.columns) > COLUMNS:
        yield _refused(f"{len(statement.columns):,} columns", COLUMNS, statement.span)
    nodes = nodes_of(statement)
    parts = [part for node in nodes for part in walk(node)]
    atoms = [part for part in parts if isinstance(part, s.Atom)]
    for atom in atoms:
        if len(atom.args) > COLUMNS:
            yield _refused(f"{len(atom.args):,} columns", COLUMNS, atom.span)
    if len(parts) > PARTS:
        yield _refused(f"a statement of {len(parts):,} parts", PARTS, statement.span)
    elif len(atoms) > ATOMS:
        yield _refused(f"a rule of {len(atoms):,} atoms", ATOMS, statement.span)
    elif (found := max(map(_alternatives, nodes), default=0)) > ALTERNATIVES:
        yield _refused(f"a body of {found:,} alternatives", ALTERNATIVES, statement.span)


def _names_a_file(statement: s.Statement, folders: Folders) -> bool:
    if isinstance(statement, s.Decl):
        return not {"input", "output"}.isdisjoint(statement.qualifiers)
    if not isinstance(statement, s.Directive):
        return isinstance(statement, s.Include)
    shown = to_stdout(statement) or (folders.out == "-" and statement.path is None)
    return statement.kind == "input" or (statement.kind == "output" and not shown)


def _alternatives(node: Node) -> int:
    """The number of alternatives of a body, or of the negation or aggregate inside with most."""
    match node:
        case s.Or():
            return sum(map(_alternatives, node.items))
        case s.And():
            return prod(map(_alternatives, node.items))
        case _:
            return max((_alternatives(below) for below in children(node)), default=1)
