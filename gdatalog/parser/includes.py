"""Puts the statements of `.include`d files in the place of these directives."""

from __future__ import annotations

from collections.abc import Callable

from gdatalog.errors import Note, ParseError, Span, raise_together
from gdatalog.parser.syntax import Include, Program, Statement

Read = Callable[[str, Span], Program]


DEEPEST = 100


def expand_includes(program: Program, read: Read) -> Program:
    """Replaces each `.include` by the statements of its file, recursively.

    `read(path, span)` parses a file; `span` is the directive, whose source resolves relative paths.
    The spans in the returned program must have the file as their source, so that cycles are
    detected. Raises the errors of all files together.
    """
    errors: list[ParseError] = []
    statements = _expand(program, read, (), errors)
    raise_together(errors)
    return Program(tuple(statements))


def _expand(
    program: Program, read: Read, above: tuple[Span, ...], errors: list[ParseError]
) -> list[Statement]:
    """Expands a program; `above` holds the directives that led here, the outermost first."""
    found: list[Statement] = []
    for node in program.statements:
        if not isinstance(node, Include):
            found.append(node)
            continue
        trail = (*above, node.span)
        cycle = _cycle(trail)
        if cycle is not None:
            errors.append(cycle)
            break
        try:
            below = read(node.path, node.span)
        except ParseError as error:
            errors += [part for part in error.all if isinstance(part, ParseError)]
            continue
        found += _expand(below, read, trail, errors)
    return found


def _cycle(trail: tuple[Span, ...]) -> ParseError | None:
    """The error if the last directive's file is already being included, or if the nesting is too
    deep."""
    *above, last = trail
    names = [span.source.name for span in above]
    if last.source.name in names:
        steps = above[names.index(last.source.name) :]
        files = [*(span.source.name for span in steps), last.source.name]
        message = "files that include each other: " + " -> ".join(files)
        hint = "put what both need into a file that includes neither"
        notes = [Note("which is included here", span) for span in steps[:-1]]
        return ParseError(message, steps[-1], hint=hint, notes=notes)
    if len(trail) > DEEPEST:
        return ParseError(f"files are included more than {DEEPEST} deep", last)
    return None
