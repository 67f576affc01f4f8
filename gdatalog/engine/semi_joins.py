"""Semi-join reduction: indexes only the rows of long relations that a query's constants leave.

A first query with constants should not wait for full indexes. The rows that match a constant or a
comparison leave few values for the other variables of their atom; these leave few rows of the next
relation, and so on. Such passes over columns are much cheaper than a sort. Indexes are then built
from what is left. If an index is requested a second time, it is built from all rows and cached.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from time import perf_counter

import numpy as np

from gdatalog.cpu_ops.expressions import Scope
from gdatalog.engine.context import ExecutionContext
from gdatalog.plan import join_plan as p
from gdatalog.plan.effects import may_fail, participants
from gdatalog.records import dataclass, field
from gdatalog.storage.kept import Kept
from gdatalog.storage.keys import encode_value
from gdatalog.storage.relation import Relation
from gdatalog.storage.row_tests import COMPARE
from gdatalog.storage.rows import Columns, in_sorted, sorted_set
from gdatalog.storage.selection import rows_among, rows_with
from gdatalog.storage.table import Array
from gdatalog.storage.trie import Trie

# The relations of a join's tries, which do not change meanwhile.
Finished = Sequence[Relation]

# Columns by which only a part of a relation's rows was indexed.
_PART_INDEXED = Kept[frozenset[tuple[int, ...]]](follows=True)

SAMPLE = 512  # sampled rows for the selectivity of values

# The comparison with its sides swapped.
TURNED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

Term = str | int  # a variable, or the key of a constant


@dataclass(slots=True)
class _Atom:
    """An atom of the join, and its remaining rows."""

    ref: p.TrieRef
    relation: Relation
    terms: Sequence[Term]  # of each level of its trie
    bounds: Sequence[tuple[int, str, int]] = ()  # levels, and the keys they are compared with
    keys: Columns = ()  # the relation's rows: another thread may sort them meanwhile
    rows: Array | None = None  # None: all
    used: set[tuple[str, int]] = field(default_factory=set)  # variables, and their number of values

    def __len__(self) -> int:
        return self.relation.at_most if self.rows is None else len(self.rows)

    def column(self, level: int) -> Array:
        column = self.keys[self.ref.columns[level]]
        return column if self.rows is None else column[self.rows]

    def sample(self, level: int) -> Array:
        """Some of the remaining values of a level."""
        column, step = self.keys[self.ref.columns[level]], max(1, len(self) // SAMPLE)
        return column[::step] if self.rows is None else column[self.rows[::step]]

    def keep(self, kept: Array) -> None:
        self.rows = kept if self.rows is None else self.rows[kept]

    @property
    def compared(self) -> bool:
        """Whether constants exclude some of its rows."""
        return bool(self.bounds) or any(isinstance(term, int) for term in self.terms)

    @property
    def variables(self) -> Iterator[tuple[int, str]]:
        return ((at, term) for at, term in enumerate(self.terms) if isinstance(term, str))


def semi_joined(
    join: p.JoinPlan, relations: Finished, context: ExecutionContext
) -> dict[p.TrieRef, tuple[Trie, float]]:
    """Tries of long relations that are not built yet, of only the rows that matter to this join,
    with the seconds that each took."""
    least, waited_for = context.thresholds.narrowed_from, set()
    for ref, relation in zip(join.tries, relations, strict=True):
        if _is_waited_for(ref, relation, least):
            waited_for.add(ref)
    if not waited_for or may_fail(join.steps):
        return {}  # running a part of the join reports its errors
    atoms, thresholds = _atoms(join, relations, context.scope), context.thresholds
    if any(atom.relation.remote is not None and atom.relation.remote.unfetched for atom in atoms):
        return {}  # remote rows are not fetched for a few
    # An index that two atoms share must not be reduced for only one of them.
    times = Counter(join.tries)
    waiting = [atom for atom in atoms if times[atom.ref] == 1 and atom.ref in waited_for]
    if not waiting or not any(atom.compared for atom in atoms):
        return {}
    for atom in atoms:
        atom.keys = atom.relation.rows
    _reduce(atoms, thresholds.narrowed_share)
    found: dict[p.TrieRef, tuple[Trie, float]] = {}
    for atom in waiting:
        whole = atom.relation
        if atom.rows is not None and len(atom.rows) <= thresholds.narrowed_share * whole.at_most:
            part, began = whole.part_of(atom.keys, atom.rows), perf_counter()
            trie = part.trie(atom.ref.columns, atom.ref.tests, atom.ref.weighted)
            note_part_indexed(whole, atom.ref.columns)
            found[atom.ref] = trie, perf_counter() - began
    return found


def _is_waited_for(ref: p.TrieRef, relation: Relation, least: int) -> bool:
    """Whether a relation is long and has no such index yet."""
    if ref.ranked or relation.at_most < least:
        return False
    indexed = relation.indexed(ref.columns, ref.tests, ref.weighted)
    return not indexed and not part_indexed(relation, ref.columns)


def part_indexed(relation: Relation, columns: tuple[int, ...]) -> bool:
    """Whether only a part of the rows was indexed by these columns before: the next index is of all
    rows."""
    return columns in (_PART_INDEXED.of(relation.store) or ())


def note_part_indexed(relation: Relation, columns: tuple[int, ...]) -> None:
    known = _PART_INDEXED.of(relation.store) or frozenset()
    _PART_INDEXED.put(relation.store, known | {columns})


def _atoms(join: p.JoinPlan, relations: Finished, scope: Scope) -> list[_Atom]:
    """The atoms whose rows every binding of the join needs, each by its own trie."""
    terms: list[list[tuple[int, Term | None]]] = [[] for _ in join.tries]
    bounds: dict[str, list[tuple[str, int]]] = {}
    for step, needed in _flat(join.steps):
        for name, op, key in _bounds(step, scope) if needed else ():
            bounds.setdefault(name, []).append((op, key))
        reused = isinstance(step, p.Join) and step.reuse is not None
        for part in participants(step):
            term = _term(step, scope) if needed and not reused else None
            terms[part.trie].append((part.depth, term))
    atoms = []
    for ref, relation, levels in zip(join.tries, relations, terms, strict=True):
        inner = [term for _, term in sorted(levels, key=lambda level: level[0])]
        known = [term for term in inner if term is not None]
        alone = len(levels) == len(known) == len(ref.columns) > 0
        if alone and ref.version == "full" and not ref.ranked:
            names = ((at, term) for at, term in enumerate(known) if isinstance(term, str))
            own = tuple((at, *bound) for at, name in names for bound in bounds.get(name, ()))
            atoms.append(_Atom(ref, relation, known, own))
    return atoms


def _flat(steps: Sequence[p.Step], needed: bool = True) -> Iterator[tuple[p.Step, bool]]:
    """All steps, including those in branches; and whether every binding needs their look-ups."""
    for step in steps:
        yield step, needed
        if isinstance(step, p.Branch):
            all_of_it = step.mode in ("exists", "count") and len(step.alternatives) == 1
            for inner in step.alternatives:
                yield from _flat(inner, needed and all_of_it)


def _term(step: p.Step, scope: Scope) -> Term | None:
    match step:
        case p.Join() | p.Assign() | p.Generate():
            return step.variable
        case p.Seek(value=p.Slot() as slot):
            return slot.name
        case p.Seek(value=p.Constant() as constant):
            return encode_value(constant.value, constant.type, scope.symbols)
        case p.Seek(value=p.Parameter() as parameter):
            return encode_value(scope.params[parameter.name], parameter.type, scope.symbols)
        case _:
            return None


def _bounds(step: p.Step, scope: Scope) -> Iterator[tuple[str, str, int]]:
    """The variables that a step compares with constants: name, operator, key."""
    tests: list[p.Apply] = []
    if isinstance(step, p.Join):
        slot = p.Slot(step.variable, step.type)
        tests = [p.Apply(op, (slot, bound), "bool") for op, bound in step.cuts]
    elif isinstance(step, p.Filter) and isinstance(step.test, p.Apply):
        tests = [step.test]
    for test in tests:
        if test.function not in COMPARE or len(test.args) != 2:
            continue
        (left, right), op = test.args, test.function
        if isinstance(right, p.Slot):
            left, right, op = right, left, TURNED[op]
        if not isinstance(left, p.Slot) or not isinstance(right, (p.Constant, p.Parameter)):
            continue
        if left.type != "symbol" or op == "=":  # symbol codes have no order
            value = right.value if isinstance(right, p.Constant) else scope.params[right.name]
            yield left.name, op, encode_value(value, right.type, scope.symbols)


def _reduce(atoms: Sequence[_Atom], most: float) -> None:
    """Removes rows that do not match constants or the values that other atoms leave. It makes only
    the passes that it expects to leave at most this share of the rows."""
    allowed: dict[str, Array] = {}
    for atom in atoms:
        keys = [(at, term) for at, term in enumerate(atom.terms) if isinstance(term, int)]
        for at, key in keys:
            atom.keep(rows_with(atom.column(at), key))
        for at, op, key in atom.bounds:
            sample = COMPARE[op](atom.sample(at), key)
            if np.count_nonzero(sample) <= most * len(sample):
                atom.keep(np.flatnonzero(COMPARE[op](atom.column(at), key)))
        if atom.rows is not None:
            _allow(atom, allowed)
    while True:
        # Short relations first: their values reduce the longer ones.
        for atom in sorted(atoms, key=len):
            found = min(_worthwhile(atom, allowed, most), default=None)
            if found is not None:
                break
        else:
            return
        _, at, name = found
        atom.used.add((name, len(allowed[name])))
        atom.keep(rows_among(atom.column(at), allowed[name]))
        _allow(atom, allowed)


def _worthwhile(
    atom: _Atom, allowed: dict[str, Array], most: float
) -> Iterator[tuple[float, int, str]]:
    """The passes over an atom's rows that pay: the share that is left, the level, the variable."""
    for at, name in atom.variables:
        if name in allowed and (name, len(allowed[name])) not in atom.used and len(atom):
            sample = atom.sample(at)
            share = float(np.count_nonzero(in_sorted(sample, allowed[name]))) / len(sample)
            if share <= most:
                yield share, at, name


def _allow(atom: _Atom, allowed: dict[str, Array]) -> None:
    """Restricts an atom's variables to the values that its rows leave."""
    for at, name in atom.variables:
        known = allowed.get(name)
        if known is None or len(atom) < len(known):
            allowed[name] = sorted_set(atom.column(at))
            atom.used.add((name, len(allowed[name])))
