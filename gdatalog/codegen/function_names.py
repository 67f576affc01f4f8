"""The names of compiled functions: readable words, and a hash of the code."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache

_DOCSTRING = re.compile(r'\A"""(?:[^"\\]|"(?!""))*"""\s*')
_COMMENT = re.compile(r"""^#.*\n|[ ]*#[^"'\n]*$""", re.MULTILINE)


@lru_cache(512)
def named(shape: str, source: str) -> str:
    """The name of a printed text: readable words, and a hash of its code.

    >>> named("count E(x,y), E(y,z)", "...")[:18]
    'count_e_x_y_e_y_z_'
    >>> named("p", "#1\\nx = 1  # 1") == named("p", "#2\\nx = 1  # 2")
    True
    """
    stem = re.sub(r"[^a-z0-9]+", "_", shape.lower()).strip("_")[:60].rstrip("_")
    digest = hashlib.sha256(_code(source).encode()).hexdigest()[:20]
    return f"{stem}_{digest}" if stem[:1].isalpha() else f"p_{stem}_{digest}"


def _code(source: str) -> str:
    """A text without docstring and comments, in which rules with the same code differ."""
    code = _DOCSTRING.sub("", source)
    return code if '"""' in code or "'''" in code else _COMMENT.sub("", code)
