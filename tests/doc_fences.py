"""The fenced blocks of a page, as `doc_blocks.py` says that they are written."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gdatalog.errors import SourceText
from gdatalog.parser.scanner import scan

FILES = ("csv", "tsv", "json", "jsonl", "facts", "text")

_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>[\w+-]+)(?P<options>[^`\n]*)\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
_OPTION = re.compile(r'(\w+)(?:="([^"]*)")?')


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: `start` and `end` are where its text stands in the page."""

    language: str
    options: dict[str, str]
    text: str
    line: int
    indent: str
    start: int
    end: int

    @property
    def title(self) -> str:
        return self.options.get("title", "")

    @property
    def is_file(self) -> bool:
        return bool(self.title) and self.language in FILES

    @property
    def is_output(self) -> bool:
        return self.language == "text" and not self.title and "skip" not in self.options


def blocks_of(text: str) -> list[Block]:
    found = []
    for fence in _FENCE.finditer(text):
        indent = fence["indent"]
        lines = fence["text"].splitlines(keepends=True)
        found.append(
            Block(
                fence["language"],
                dict(_OPTION.findall(fence["options"])),
                "".join(line.removeprefix(indent) if line.strip() else "\n" for line in lines),
                text.count("\n", 0, fence.start()) + 1,
                indent,
                fence.start("text"),
                fence.end("text"),
            )
        )
    return found


def asks(statement: str) -> bool:
    return statement.startswith(("?-", ".output", ".printsize"))


def split_statements(text: str) -> list[str]:
    """The statements of a text, each with its dot, without blanks and comments between them."""
    source = SourceText("<text>", text)
    found: list[str] = []
    at = 0
    while at < len(text):
        scanned = scan(source, at)
        if scanned.tokens:
            end = scanned.end if scanned.stop == "dot" else scanned.tokens[-1].end
            found.append(text[scanned.tokens[0].start : end])
        at = scanned.end
    return found
