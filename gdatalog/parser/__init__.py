"""The parser: from text to syntax tree, and back."""

from gdatalog.parser.completeness import is_complete
from gdatalog.parser.format import format_node
from gdatalog.parser.includes import expand_includes
from gdatalog.parser.reading import parse, parse_with_cautions, read_source
from gdatalog.parser.syntax import Program

__all__ = [
    "Program",
    "expand_includes",
    "format_node",
    "is_complete",
    "parse",
    "parse_with_cautions",
    "read_source",
]
