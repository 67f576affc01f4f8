"""Passes around the search for an order: early tests before; reused lists, dead variables after.

In `E(a,c), E(b,c), E(a,d), E(b,d), E(c,d)`, d is among the common neighbours of a and b, which c
has computed. A list can be reused only if the later level implies all its tries and cuts. Other
participants of the earlier level (that c has neighbours itself) are looked up after its list is
computed.

Variables that no later step needs are dropped, and duplicate rows with them. In
`sg(x,y) <- E(a,x), sg(a,b), E(b,y)`, a is dead once x is bound, and many a have the same (x, b).
This holds only under set semantics: a count needs every binding.

A body may need only a witness. Suppose that some of its variables occur in one atom each, and that
only `x != y` tests connect them. If the list of one contains only values that it must differ from,
the loops over the others fail for each of their combinations. So each variable is tested alone, as
soon as its list and the values it must differ from are known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from gdatalog import plan as p
from gdatalog.plan.effects import all_steps, binds, participants, reads
from gdatalog.planner.comparisons import Comparisons
from gdatalog.planner.items import AtomItem, Item, NotItem, renamed, variables_of
from gdatalog.planner.order.atoms import AtomState
from gdatalog.planner.order.edges import ends, operator
from gdatalog.records import replace


def reuse_lists(
    steps: Sequence[p.Step], atoms: Sequence[AtomState], comparisons: Comparisons
) -> tuple[p.Step, ...]:
    """The steps, where each level names the earlier list that it can start from."""
    joins = [step for step in steps if isinstance(step, p.Join)]
    if sum(len(join.participants) > 1 for join in joins) < 2:
        return tuple(steps)
    lists = {
        join.variable: [_list(join, place, atoms) for place in range(len(join.participants))]
        for join in joins
    }
    made_of: dict[str, list[object]] = {}  # of the levels that are reused: the parts of their lists
    reads: dict[str, tuple[p.Join, list[object]]] = {}
    holding: dict[object, list[int]] = {}  # for each list, the earlier levels that it is part of
    for at, join in enumerate(joins):
        best: tuple[p.Join, list[object]] | None = None
        shares = Counter(
            number for part in set(lists[join.variable]) for number in holding.get(part, ())
        )
        for earlier in (joins[number] for number in sorted(shares) if shares[number] > 1):
            shared = (
                part
                for part in lists[earlier.variable]
                if part is not None and part in lists[join.variable]
            )
            parts = made_of.get(earlier.variable) or list(dict.fromkeys(shared))
            # A list that reuses another includes the other's tries and cuts.
            through = reads[earlier.variable][1] if earlier.variable in reads else []
            if (
                len(parts) >= 2
                and all(part in parts for part in through)
                and all(part in lists[join.variable] for part in parts)
                and all(_implied(cut, join, comparisons) for cut in earlier.cuts)
                and (best is None or len(parts) >= len(best[1]))
            ):
                best = earlier, parts
        for part in set(lists[join.variable]) - {None}:
            holding.setdefault(part, []).append(at)
        if best is not None:
            reads[join.variable] = best
            made_of[best[0].variable] = best[1]
    done: list[p.Step] = []
    for step in steps:
        if not isinstance(step, p.Join):
            done.append(step)
            continue
        mine = lists[step.variable]
        reader = _reader(step, *reads[step.variable], mine) if step.variable in reads else step
        done += _made(reader, mine, made_of.get(step.variable))
    return tuple(done)


def _reader(step: p.Join, earlier: p.Join, parts: list[object], mine: list[object]) -> p.Join:
    covers = tuple(place for place, part in enumerate(mine) if part in parts)
    implied = tuple(
        at
        for at, cut in enumerate(step.cuts)
        if cut in earlier.cuts or any((place, at) in step.implied for place in covers)
    )
    return replace(step, reuse=p.Reuse(earlier.variable, covers, implied))


def _made(step: p.Join, mine: list[object], parts: list[object] | None) -> list[p.Step]:
    """A level whose list is reused has only the shared participants; the others are looked up."""
    if parts is None:
        return [step]
    kept = [place for place, part in enumerate(mine) if part in parts]
    others = tuple(each for place, each in enumerate(step.participants) if place not in kept)
    if not others:
        return [step]
    reuse = step.reuse
    if reuse is not None:
        reuse = replace(reuse, covers=tuple(kept.index(place) for place in reuse.covers))
    level = replace(
        step,
        participants=tuple(step.participants[place] for place in kept),
        implied=tuple((kept.index(place), at) for place, at in step.implied if place in kept),
        reuse=reuse,
    )
    return [level, p.Seek(p.Slot(step.variable, step.type), others)]


def _list(step: p.Join, place: int, atoms: Sequence[AtomState]) -> object:
    """What identifies a participant's list; None if the trie continues below it."""
    part = step.participants[place]
    atom = atoms[part.trie]
    if part.depth + 1 != len(atom.order) or atom.weighted:
        return None
    return atom.trie(), atom.prefix()


def _implied(cut: p.Comparison, step: p.Join, comparisons: Comparisons) -> bool:
    if cut in step.cuts:
        return True
    op, bound = cut
    return isinstance(bound, p.Slot) and comparisons.implies(step.variable, op, bound.name)


# Dead-variable projection.


def compact_rows(
    steps: Sequence[p.Step],
    tries: Sequence[p.TrieRef],
    live: frozenset[str],
    recursive: Collection[str] = (),
    given: Sequence[str] = (),
) -> tuple[p.Step, ...]:
    """The steps, with a `Compact` before each join at which a variable has died.

    `recursive`: the relations that change in the current fixpoint. `given`: the variables that are
    bound before the first step.
    """
    if any(isinstance(step, p.Join) and step.reuse is not None for step in steps):
        return tuple(steps)  # a list to be reused must not change
    lasts = _lasts(steps)
    bound: list[str] = list(given)
    dead: set[str] = set()
    ended: list[str] = []  # bound variables without a later use
    ends: dict[int, list[str]] = {}  # bound variables, by the step of their last use
    for name in bound:
        ends.setdefault(lasts.get(name, -1), []).append(name)
    computed: dict[str, frozenset[str]] = {}  # computed variables, and those they are computed from
    done: list[p.Step] = []
    for at, step in enumerate(steps):
        ended += (name for name in ends.pop(at - 1, ()) if name not in live)
        if isinstance(step, p.Join) and bound and ended:
            needed = {name for name in bound if name in live or lasts.get(name, -1) >= at}
            newly = [name for name in ended if not _determined(name, needed, computed)]
            if newly:
                dead.update(newly)
                ended = [name for name in ended if name not in dead]
                keep = tuple(name for name in bound if name in needed)
                rest = steps[at:]
                lasting = all(tries[trie].relation not in recursive for trie in _used(rest))
                done.append(p.Compact(keep, lasting))
        done.append(step)
        for name in binds(step):
            bound.append(name)
            ends.setdefault(max(at, lasts.get(name, -1)), []).append(name)
        if isinstance(step, p.Assign) or (
            isinstance(step, p.Branch) and step.reduction is not None and not step.reduction.exports
        ):
            computed[binds(step)[0]] = reads(step)
    return tuple(done)


def _lasts(steps: Sequence[p.Step]) -> dict[str, int]:
    """The last step that needs each variable: it reads the variable, or descends in a trie from the
    variable's position."""
    walks: dict[int, int] = {}
    found: dict[str, int] = {}
    for at, step in enumerate(steps):
        for part in participants(step):
            walks[part.trie] = at
        for name in reads(step):
            found[name] = at
    for step in steps:
        for part in participants(step):
            for name in binds(step) or reads(step):
                found[name] = max(found.get(name, -1), walks[part.trie])
    return found


def _determined(name: str, by: Collection[str], computed: Mapping[str, frozenset[str]]) -> bool:
    """Whether other variables determine a variable's value, so that it cannot make rows differ."""
    return name in by or (
        name in computed and all(_determined(other, by, computed) for other in computed[name])
    )


def _used(steps: Sequence[p.Step]) -> set[int]:
    """The tries that steps read."""
    every = list(all_steps(tuple(steps)))
    guarded = {step.trie for step in every if isinstance(step, p.Guard)}
    return guarded | {part.trie for step in every for part in participants(step)}


# Early tests for witnesses.


Names = frozenset[str]
MANY = 3  # variables; with two, an early test saves nothing


def with_lone_witnesses(items: Sequence[Item], outer: Names) -> Sequence[Item]:
    """The items, and an implied existence test for each variable that only `!=` connects."""
    last = {name for name in variables_of(items) - outer if _is_last(name, items)}
    tests = [item for item in items if operator(item) == "!="]
    coupled = {name for test in tests if set(ends(test)) <= last for name in ends(test)}
    if len(coupled) < MANY:
        return items
    return (*items, *(_alone(name, items, last) for name in sorted(coupled)))


def _is_last(name: str, items: Sequence[Item]) -> bool:
    """Whether a variable occurs in one atom, together with others, and otherwise only in `!=`
    tests."""
    own = [item for item in items if name in item.variables]
    atoms = [item for item in own if isinstance(item, AtomItem)]
    return (
        len(atoms) == 1
        and len(atoms[0].variables) > 1
        and all(operator(item) == "!=" for item in own if item is not atoms[0])
    )


def _alone(name: str, items: Sequence[Item], last: set[str]) -> Item:
    """The test that a variable has a value, whatever values the other last variables have."""
    own = [item for item in items if name in item.variables]
    held = [item for item in own if item.variables.isdisjoint(last - {name})]
    part = tuple(renamed(item, {name: f"{name}~"}) for item in held)
    reads = variables_of(held) - {name}
    return NotItem(((NotItem((part,), reads),),), reads)
