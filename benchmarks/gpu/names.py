"""What kernels are for, by their names and by what they look up: the cases of Wu et al. (2014).

Case 1, lists of roots that meet, has nothing to do where the tries are the same.
"""

from __future__ import annotations

import re

_NAMES = {
    "walk_plan": "the depth-first kernel",
    "find_sorted": "case 2: values in a root",
    "find_dense": "case 2: values in a root",
    "find_in": "case 3: (parent, value) pairs",
    "bound_in": "ranges of cuts",
    "ranges": "ranges of cuts",
    "survivors": "compact",
    "sum_ints": "sums",
    "sum_doubles": "sums",
}
# What a fused kernel looks values up in: a root's list, or those of parents.
_CASES = {
    "case 2": r"find_indexed\(index\d|find_within\(values\d+, 0,",
    "case 3": r"find_within\(values\d+, offsets",
}


def part_of(name: str, source: str) -> str:
    """
    >>> part_of("survivors", ""), part_of("other", "")
    ('compact', 'other')
    >>> kernel = "KERNEL(intersect_lists)() { find_within(values0, offsets0[p], offsets0[p + 1]) }"
    >>> part_of("intersect_lists", kernel)
    'expand, case 3, compact: fused'
    """
    if name != "intersect_lists":
        return _NAMES.get(name, name)
    text = source.partition("KERNEL(intersect_lists)")[2]
    cases = [case for case, pattern in _CASES.items() if re.search(pattern, text)]
    return f"{', '.join(['expand', *cases, 'compact'])}: fused" if cases else "expand"
