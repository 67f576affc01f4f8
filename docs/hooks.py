"""What mkdocs adds to the pages, and does with a page's text before it is Markdown."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import api_page
from mkdocs.structure.files import File, Files

_FENCE = re.compile(r"^( *```)(\w+)\b(.*)$(?=\n *(%%datalog)?)", re.MULTILINE)
_OURS = {"console": "gdatalog-console", "ipython": "gdatalog-cell"}
# What a block's first line says to the tests (tests/doc_blocks.py), and to nobody else.
_FOR_TESTS = re.compile(r' (?:more|roughly|(?:skip|args)="[^"]*")')


def on_files(files: Files, config: Any, **_: Any) -> Files:
    """Pages that are made of something else: the reference, and the changelog."""
    changes = Path(config.config_file_path).with_name("CHANGELOG.md").read_text(encoding="utf-8")
    for name, text in (("api.md", api_page.page()), ("changelog.md", changes)):
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Sessions and cells of Datalog have the colours of our own lexers (shell/editor/lexer.py)."""

    def fence(found: re.Match[str]) -> str:
        language = found[2] if found[2] == "ipython" and not found[4] else _OURS.get(found[2])
        return found[1] + (language or found[2]) + _FOR_TESTS.sub("", found[3])

    return _FENCE.sub(fence, markdown)
