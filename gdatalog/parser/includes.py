"""`.include "lib.dl"`: the statements of another file, in the directive's place."""

from __future__ import annotations

from collections.abc import Callable

from gdatalog.errors import Note, ParseError, Span
from gdatalog.parser.syntax import Include, Program, Statement

Read = Callable[[str, Span], Program]


DEEPEST = 100


def expand_includes(program: Program, read: Read) -> Program:
    """The program with each `.include` replaced by what it names, and so on below.

    `read(path, span)` parses a file; `span` is its directive, whose source tells what the path
    is relative to. It names the file as `span.source` does: that is how a file that includes
    itself is found out. The errors of all files are raised together.
    """
    errors: list[ParseError] = []
    statements = _expand(program, read, (), errors)
    if errors:
        errors[0].others = tuple(errors[1:])
        raise errors[0]
    return Program(tuple(statements))


def _expand(
    program: Program, read: Read, above: tuple[Span, ...], errors: list[ParseError]
) -> list[Statement]:
    """`above`: the directives that led here, the outermost first."""
    found: list[Statement] = []
    for statement in program.statements:
        if not isinstance(statement, Include):
            found.append(statement)
            continue
        trail = (*above, statement.span)
        cycle = _cycle(trail)
        if cycle is not None:
            errors.append(cycle)
            break
        try:
            below = read(statement.path, statement.span)
        except ParseError as error:
            errors += [part for part in error.all if isinstance(part, ParseError)]
            continue
        found += _expand(below, read, trail, errors)
    return found


def _cycle(trail: tuple[Span, ...]) -> ParseError | None:
    """The error, if the file that holds the last directive holds an earlier one too."""
    *above, last = trail
    names = [span.source.name for span in above]
    if last.source.name in names:
        steps = above[names.index(last.source.name) :]
        files = [*(span.source.name for span in steps), last.source.name]
        return ParseError(
            "files that include each other: " + " -> ".join(files),
            steps[-1],
            hint="put what both need into a file that includes neither",
            notes=[Note("which is included here", span) for span in steps[:-1]],
        )
    if len(trail) > DEEPEST:
        return ParseError(f"files are included more than {DEEPEST} deep", last)
    return None
