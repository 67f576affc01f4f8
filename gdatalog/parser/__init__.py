"""From text to syntax tree and back."""

from gdatalog.parser.parse import parse, parse_all, parse_with_cautions
from gdatalog.parser.statements import is_complete, split_statements

__all__ = [
    "is_complete",
    "parse",
    "parse_all",
    "parse_with_cautions",
    "split_statements",
]
