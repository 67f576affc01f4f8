"""The parser: from text to syntax tree, and back."""

from gdatalog.parser.format import format_node, format_program
from gdatalog.parser.parse import expand_includes, parse, parse_with_cautions
from gdatalog.parser.scanner import is_complete, split_statements
from gdatalog.parser.syntax import Program

__all__ = [
    "Program",
    "expand_includes",
    "format_node",
    "format_program",
    "is_complete",
    "parse",
    "parse_with_cautions",
    "split_statements",
]
