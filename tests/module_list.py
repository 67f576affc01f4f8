"""The list of modules in docs/internals/modules.md, made of the first words of their docstrings.

python -m tests.module_list --write
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "gdatalog"
PAGE = ROOT / "docs" / "internals" / "modules.md"

HEAD = """\
# Modules

Every module of the package, with the first words of its docstring.
`python -m tests.module_list --write` makes this page, and a test compares it.
"""


def first_words(path: Path) -> str:
    """The first paragraph of a module's docstring, in one line; "" where the module is empty."""
    docstring = re.match(r'"""(.*?)(\n\n|""")', path.read_text(encoding="utf-8"), re.DOTALL)
    return re.sub(r"\s+", " ", docstring[1]).strip() if docstring else ""


def page() -> str:
    """The whole page."""
    lines = [HEAD]
    folders = sorted({path.parent for path in PACKAGE.rglob("*.py")})
    for folder in folders:
        words = {path.name: first_words(path) for path in sorted(folder.glob("*.py"))}
        told = [f"- `{name}`: {text}" for name, text in words.items() if text]
        if told:
            name = folder.relative_to(ROOT).as_posix()
            lines += [f"## {name}/\n", *told, ""]
    return "\n".join(lines)


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        sys.exit(PAGE.read_text(encoding="utf-8") != page())
