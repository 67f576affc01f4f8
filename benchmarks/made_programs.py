"""Programs of three well-known kinds, which Soufflé runs as they are, and facts made up for them.

CFL reachability (values that leave a function by the call that they came in by), Steensgaard's
points-to analysis (an equivalence relation written as rules), and access control with groups,
roles, folders and denials. Each kind has a size, from which the facts follow: the same each time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.columns import Array

Facts = Mapping[str, list[Array]]

CFL = """\
// Which values reach which: flows within functions, and calls matched with their returns.
.decl flow(x: number, y: number)
.decl call(x: number, site: number, y: number)
.decl back(x: number, site: number, y: number)
.input flow
.input call
.input back
.decl matched(x: number, y: number)
.decl reaches(x: number, y: number)
.printsize matched
.printsize reaches
matched(x, y) :- flow(x, y).
matched(x, y) :- call(x, site, v), back(v, site, y).
matched(x, y) :- call(x, site, v), matched(v, w), back(w, site, y).
matched(x, z) :- matched(x, y), matched(y, z).
reaches(x, y) :- matched(x, y).
reaches(x, y) :- call(x, _, y).
reaches(x, z) :- reaches(x, y), call(y, _, z).
reaches(x, z) :- reaches(x, y), matched(y, z).
"""

STEENSGAARD = """\
// Points-to by unification: two cells are the same if some pointer may point to both.
.decl address_of(p: number, cell: number)
.decl copy(p: number, q: number)
.decl load(p: number, q: number)
.decl store(p: number, q: number)
.input address_of
.input copy
.input load
.input store
.decl points_to(p: number, cell: number)
.decl same(x: number, y: number)
.decl alias(p: number, q: number)
.printsize points_to
.printsize same
.printsize alias
points_to(p, c) :- address_of(p, c).
points_to(p, c) :- copy(p, q), points_to(q, c).
points_to(q, c) :- copy(p, q), points_to(p, c).
points_to(p, d) :- load(p, q), points_to(q, c), points_to(c, d).
points_to(c, d) :- load(p, q), points_to(q, c), points_to(p, d).
points_to(c, d) :- store(p, q), points_to(p, c), points_to(q, d).
points_to(q, d) :- store(p, q), points_to(p, c), points_to(c, d).
points_to(y, c) :- same(x, y), points_to(x, c).
same(c, d) :- points_to(p, c), points_to(p, d).
same(x, y) :- same(y, x).
same(x, z) :- same(x, y), same(y, z).
alias(p, q) :- address_of(p, _), points_to(p, c), points_to(q, c), address_of(q, _).
"""

ACCESS = """\
// Who may do what with which folder: groups in groups, roles that imply others, and denials.
.decl in_group(member: symbol, group: symbol)
.decl has_role(group: symbol, role: symbol)
.decl implies(role: symbol, other: symbol)
.decl lies_in(path: symbol, folder: symbol)
.decl grant(role: symbol, right: symbol, folder: symbol)
.decl deny(group: symbol, right: symbol, folder: symbol)
.decl user(who: symbol)
.input in_group
.input has_role
.input implies
.input lies_in
.input grant
.input deny
.input user
.decl member(who: symbol, group: symbol)
.decl plays(group: symbol, role: symbol)
.decl below(path: symbol, folder: symbol)
.decl granted(who: symbol, right: symbol, path: symbol)
.decl denied(who: symbol, right: symbol, path: symbol)
.decl may(who: symbol, right: symbol, path: symbol)
.decl rights(who: symbol, many: number)
.printsize member
.printsize granted
.printsize may
.printsize rights
member(u, g) :- user(u), in_group(u, g).
member(u, h) :- member(u, g), in_group(g, h).
plays(g, r) :- has_role(g, r).
plays(g, s) :- plays(g, r), implies(r, s).
below(f, f) :- lies_in(f, _).
below(f, f) :- lies_in(_, f).
below(x, g) :- below(x, f), lies_in(f, g).
granted(u, a, x) :- member(u, g), plays(g, r), grant(r, a, f), below(x, f).
denied(u, a, x) :- member(u, g), deny(g, a, f), below(x, f).
may(u, a, x) :- granted(u, a, x), !denied(u, a, x).
rights(u, n) :- user(u), n = count : { may(u, _, _) }.
"""


@dataclass(frozen=True, slots=True)
class Made:
    """A program and what makes its facts, of a size: the one that benchmarks run is `size`."""

    name: str
    text: str
    facts: Callable[[int], Facts]
    size: int

    def write(self, folder: Path, size: int) -> Path:
        """Writes the program and its facts; gives the program's path."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, columns in self.facts(size).items():
            rows = zip(*(column.tolist() for column in columns), strict=True)
            lines = sorted({"\t".join(map(str, row)) + "\n" for row in rows})
            (folder / f"{name}.facts").write_text("".join(lines))
        program = folder / f"{self.name}.dl"
        program.write_text(self.text)
        return program


def cfl_facts(functions: int) -> Facts:
    """Functions of 12 values each, of which the first comes in and the last goes out."""
    random, values = np.random.default_rng(1), 12
    first = np.arange(functions) * values
    x = np.concatenate([first + random.integers(0, values - 1, functions) for _ in range(14)])
    step = np.minimum(random.zipf(2.0, len(x)), values - 1 - x % values)
    calls = random.integers(0, functions, 2 * functions)
    # A function calls later ones near it, and rarely any: so there is some recursion.
    far = random.random(len(calls)) < 0.02
    called = np.minimum(calls + random.integers(1, 12, len(calls)), functions - 1)
    called[far] = random.integers(0, functions, np.count_nonzero(far))
    from_, to = (random.integers(0, values, len(calls)) for _ in range(2))
    sites = np.arange(len(calls))
    return {
        "flow": [x, x + step],
        "call": [calls * values + from_, sites, called * values],
        "back": [called * values + values - 1, sites, calls * values + to],
    }


def steensgaard_facts(functions: int) -> Facts:
    """Functions of 60 variables, which are set to what is near them; few are set from elsewhere."""
    random, variables = np.random.default_rng(2), 60
    many = functions * variables
    kinds = {"address_of": 15, "copy": 45, "load": 6, "store": 6}
    found = {}
    for name, each in kinds.items():
        p = random.integers(0, many, each * functions)
        q = p - p % variables + random.integers(0, variables, len(p))
        if name == "address_of":
            q += many  # the cells of variables
        elif name == "copy":
            far = random.random(len(p)) < 0.005
            q[far] = np.minimum(
                p[far] + random.integers(1, variables, np.count_nonzero(far)), many - 1
            )
        found[name] = [p, q]
    return found


def access_facts(users: int) -> Facts:
    """Of six users one group, in trees of groups and of folders; most grants lie deep."""
    random = np.random.default_rng(3)
    groups, roles, folders = users // 6 + 2, users // 20 + 2, users + 2

    def names(kind: str, numbers: Array) -> Array:
        return np.array([f"{kind}:{number}" for number in numbers.tolist()], dtype=object)

    def tree(count: int, wide: int) -> tuple[Array, Array]:
        below = np.arange(1, count)
        return below, np.maximum(below - 1 - random.integers(0, wide, count - 1), 0) // 3

    low, high = tree(groups, 4)
    role, other = tree(roles, 4)
    path, folder = tree(folders, 6)
    who = np.repeat(np.arange(users), 2)
    rights = np.array(["read", "write", "delete", "share"], dtype=object)

    def rules(kind: str, count: int, many: int) -> list[Array]:
        where = folders - 1 - np.minimum(random.zipf(1.3, many), folders) % folders
        return [
            names(kind, random.integers(0, count, many)),
            rights[random.integers(0, len(rights), many)],
            names("folder", np.where(random.random(many) < 0.5, where, where // 9)),
        ]

    return {
        "user": [names("user", np.arange(users))],
        "in_group": [
            np.concatenate([names("user", who), names("group", low)]),
            np.concatenate(
                [names("group", random.integers(0, groups, len(who))), names("group", high)]
            ),
        ],
        "has_role": [
            names("group", np.arange(groups)),
            names("role", random.integers(0, roles, groups)),
        ],
        "implies": [names("role", role), names("role", other)],
        "lies_in": [names("folder", path), names("folder", folder)],
        "grant": rules("role", roles, 4 * roles),
        "deny": rules("group", groups, groups),
    }


MADE = (
    Made("CFL reachability", CFL, cfl_facts, 50_000),
    Made("Steensgaard", STEENSGAARD, steensgaard_facts, 1_600),
    Made("access control", ACCESS, access_facts, 16_000),
)
