"""What mkdocs does with a page's text before it is Markdown."""

from __future__ import annotations

import re
from typing import Any

_FENCE = re.compile(r"^( *```)(\w+)\b(.*)$(?=\n *(%%datalog)?)", re.MULTILINE)
_OURS = {"console": "gdatalog-console", "ipython": "gdatalog-cell"}
# What a block's first line says to the tests (tests/doc_blocks.py), and to nobody else.
_FOR_TESTS = re.compile(r' (?:more|roughly|(?:skip|args)="[^"]*")')


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Sessions and cells of Datalog have the colours of our own lexers (shell/editor/lexer.py)."""

    def fence(found: re.Match[str]) -> str:
        language = found[2] if found[2] == "ipython" and not found[4] else _OURS.get(found[2])
        return found[1] + (language or found[2]) + _FOR_TESTS.sub("", found[3])

    return _FENCE.sub(fence, markdown)
