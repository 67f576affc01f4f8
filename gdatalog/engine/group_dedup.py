"""How a join finds the duplicates within each group: by the number of bits of the keys."""

from __future__ import annotations

from collections.abc import Sequence

from gdatalog.plan.grouped_rows import groups_of, kept_apart, level_of
from gdatalog.plan.join_plan import Compact, JoinPlan
from gdatalog.records import dataclass
from gdatalog.settings import Thresholds
from gdatalog.storage.trie import Trie

MOST_KEY_BITS = 62  # of keys in a hash set
LOOKS, LOOKS_EACH = 16, 4  # scans of 64 bitmap words: for a group, and for each of its rows


@dataclass(frozen=True, slots=True)
class GroupDedup:
    """How duplicates within a group are found: in a hash set if `hashed`, else in a bitmap.
    `compacts`: the variables of earlier bitmaps, by the number of the step."""

    hashed: bool
    compacts: tuple[tuple[int, tuple[str, ...]], ...] = ()


def grouped_of(join: JoinPlan, tries: Sequence[Trie], thresholds: Thresholds) -> GroupDedup | None:
    """How a join over these tries deduplicates group by group; None if it does not."""
    groups = groups_of(join)
    if groups is None:
        return None

    def bits(names: Sequence[str]) -> int:
        parts = [level_of(join, name) for name in names]
        spans = [tries[part.trie].levels[part.depth].span for part in parts]
        return sum((high - low).bit_length() for low, high in spans)

    first = level_of(join, groups.by[0])
    many = len(tries[first.trie].levels[first.depth])
    if bits(groups.keys) > MOST_KEY_BITS or many < thresholds.groups_from:
        return None
    # Bitmaps are scanned for each group, 64 words at a time.
    looks = max(LOOKS, LOOKS_EACH * groups.estimate / max(1, many))
    widest = int(looks).bit_length() + 11
    compacts = []
    for number, step in enumerate(join.steps):
        if isinstance(step, Compact):
            names = kept_apart(join, groups, step)
            if names is not None and bits(names) <= min(widest, thresholds.step_bitmap_bits):
                compacts.append((number, names))
    return GroupDedup(
        bits(groups.keys) > min(widest, thresholds.group_bitmap_bits), tuple(compacts)
    )
