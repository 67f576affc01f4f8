"""Errors of kernels that do not compile."""

from __future__ import annotations

import re

from gdatalog.errors import DeviceError, Note

AROUND = 2  # lines before and after the one that failed
MOST_ERRORS, MOST_LOG = 3, 20

# `kernels.cu(12): error: ...`, `kernels.cu(12): error #20: ...`, `(12): catastrophic error: ...`
_ERROR = re.compile(r"^[^\n]*?\((\d+)\): (?:catastrophic )?error(?: #[\w-]+)?: (.*)$", re.MULTILINE)


def compile_error(log: str, source: str, label: str) -> DeviceError:
    """An error that shows the generated source around each line that NVRTC refused.

    >>> print(compile_error("a.cu(2): error: no such thing", "int x;\\nint y = z;", "p(x)"))
    device error: a kernel of `p(x)` does not compile
      note: line 2: no such thing
           1 | int x;
        -> 2 | int y = z;
      hint: this is a mistake of gdatalog, please report it; device="cpu" answers meanwhile
    """
    found = [(int(number), what.strip()) for number, what in _ERROR.findall(log)]
    source_lines = source.split("\n")
    notes = [
        "\n".join([f"line {number}: {what}", *_excerpt(source_lines, number)])
        for number, what in found[:MOST_ERRORS]
    ]
    if len(found) > MOST_ERRORS:
        notes.append(f"and {len(found) - MOST_ERRORS} errors more")
    if not found:  # ptxas, or an option
        notes.append("\n    ".join(log.strip().splitlines()[:MOST_LOG]))
    return DeviceError(
        f"a kernel of `{' '.join(label.split())}` does not compile",
        notes=map(Note, notes),
        hint='this is a mistake of gdatalog, please report it; device="cpu" answers meanwhile',
    )


def _excerpt(lines: list[str], number: int) -> list[str]:
    first, last = max(1, number - AROUND), min(len(lines), number + AROUND)
    wide = len(str(last))
    return [
        f"    {'->' if at == number else '  '} {at:>{wide}} | {lines[at - 1].rstrip()}"
        for at in range(first, last + 1)
    ]
