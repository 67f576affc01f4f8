"""What kernels are for, by their names and by what they look up: the cases of Wu et al. (2014).

Case 1, lists of roots that meet, has nothing to do where the tries are the same.
"""

from __future__ import annotations

import re

_NAMES = {
    "walk_plan": "the depth-first kernel",
    "look_up_sorted": "case 1 or 2: sorted values in a root",
    "look_up_pairs": "case 3: (parent, value) pairs",
    "bound_in": "ranges of cuts",
    "ranges": "ranges of cuts",
    "lists_of_rows": "lists of rows, sums",
    "survivors": "compact",
    "sum_ints": "sums",
    "sum_doubles": "sums",
}
# What a fused kernel looks values up in: a root's list, or those of parents.
_CASES = {
    "case 3": r"lower_of_each\(a\d+, keys|find\(a\d+, low",
    "case 2": r"find_indexed\(|find\(a\d+, 0, n",
}
_LEVELS = {"expand_level": "compact", "count_level": "count"}


def part_of(name: str, source: str) -> str:
    """
    >>> part_of("survivors", ""), part_of("other", "")
    ('compact', 'other')
    >>> part_of("expand_level", "KERNEL(expand_level)() { find(a4, low0, high0, key) }")
    'expand, case 3, compact: fused'
    """
    if name not in _LEVELS:
        return _NAMES.get(name, name)
    text = source.rpartition(f"{name})(")[2]
    cases = [case for case, pattern in _CASES.items() if re.search(pattern, text)]
    return f"{', '.join(['expand', *cases, _LEVELS[name]])}: fused"
