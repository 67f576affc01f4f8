"""What mkdocs does with a page's text before it is Markdown."""

from __future__ import annotations

import re
from typing import Any

_FENCE = re.compile(r"^( *```)(\w+)\b(.*)$", re.MULTILINE)
# What a block's first line says to the tests (tests/doc_blocks.py), and to nobody else.
_FOR_TESTS = re.compile(r' (?:more|roughly|(?:skip|args)="[^"]*")')


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Console blocks have the colours of our own lexer, which knows the prompt."""

    def fence(found: re.Match[str]) -> str:
        language = "gdatalog-console" if found[2] == "console" else found[2]
        return found[1] + language + _FOR_TESTS.sub("", found[3])

    return _FENCE.sub(fence, markdown)
