"""Points-to analyses (Andersen's): of a C program, and of constraints made up like those of one.

DuckDB's recursive query has one recursive table, so two relations are told apart by a column; the
rows that all rounds have made are `recurring`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.columns import Array, Columns
from benchmarks.graphs import short
from benchmarks.peers import DuckDB
from benchmarks.records import Case, faster
from benchmarks.setting import Setting
from benchmarks.sides import Recursive
from tests.data import FOLDER, HMMER, hmmer

MANY = 1_000_000
POINTS = 1_166_829  # of hmmer, as a worklist over Python sets finds them
KINDS = ("address_of", "copy", "load", "store")  # to = &of, to = of, to = *of, *to = of

MADE = """
    pt(p, v) <- address_of(p, v).
    pt(p, v) <- copy(p, q), pt(q, v).
    pt(p, v) <- load(p, q), pt(q, r), pt(r, v).
    pt(r, v) <- store(p, q), pt(p, r), pt(q, v).
    n(count()) <- pt(_, _)."""
MADE_SQL = """
    with recursive pt(p, v) as (
        select "to", "of" from address_of
        union (
        select c."to", d.v from pt d join copy c on c."of" = d.p
        union all
        select l."to", q.v from pt d join load l on l."of" = d.p join recurring.pt q on q.p = d.v
        union all
        select l."to", d.v from pt d join recurring.pt q on q.v = d.p join load l on l."of" = q.p
        union all
        select d.v, q.v from pt d join store s on s."to" = d.p join recurring.pt q on q.p = s."of"
        union all
        select q.v, d.v from pt d join store s on s."of" = d.p join recurring.pt q on q.p = s."to"
        ))
    select count(*) from pt"""

PROGRAM = """
    points(x, o) <- allocated(x, o).
    points(y, o) <- flow(x, y), points(x, o).
    points(x, h) <- load(x, p), points(p, o), holds(o, h).
    holds(o, h)  <- store(x, p), points(p, o), points(x, h).
    n(count()) <- points(_, _)."""
PROGRAM_SQL = """
    with recursive r(holds, a, b) as (
        select 0, x, y from allocated
        union (
        select 0, f.y, d.b from r d join flow f on f.x = d.a where d.holds = 0
        union all
        select 0, l.x, h.b from r d join load l on l.y = d.a
            join recurring.r h on h.holds = 1 and h.a = d.b where d.holds = 0
        union all
        select 0, l.x, d.b from r d join recurring.r p on p.holds = 0 and p.b = d.a
            join load l on l.y = p.a where d.holds = 1
        union all
        select 1, d.b, q.b from r d join store s on s.y = d.a
            join recurring.r q on q.holds = 0 and q.a = s.x where d.holds = 0
        union all
        select 1, q.b, d.b from r d join store s on s.x = d.a
            join recurring.r q on q.holds = 0 and q.a = s.y where d.holds = 0
        ))
    select count(*) from r where holds = 0"""


def constraints(many: int = MANY, seed: int = 1) -> Columns:
    """About so many statements of a program of 200 variables in each function.

    Each variable is set once, and some of them once more. What it is set to comes from a little
    before it in its function, rarely from one of few that are used everywhere. Of 25 variables one
    has its address taken.
    """
    random = np.random.default_rng(seed)
    variables, stores = many * 8 // 10, many * 12 // 100
    taken = np.sort(random.choice(variables, max(1, variables // 25), replace=False))

    def source(to: Array) -> Array:
        """A variable that each of some is set to."""
        back = np.minimum(random.zipf(1.5, len(to)), 200)
        found: Array = to - np.minimum(back, to % 200)
        everywhere = random.random(len(to)) < 0.0005
        many_times = random.random(np.count_nonzero(everywhere)) ** 4
        found[everywhere] = (variables * many_times).astype(np.int64)
        return found

    more = many - stores - variables
    to = np.concatenate([random.permutation(variables), random.integers(0, variables, more)])
    kinds = random.choice(3, len(to), p=(0.15, 0.67, 0.18))
    targets = [*(to[kinds == kind] for kind in range(3)), random.integers(0, variables, stores)]
    found: Columns = {}
    for name, ends in zip(KINDS, targets, strict=True):
        of = source(ends)
        if name == "address_of":
            of = taken[np.minimum(np.searchsorted(taken, of), len(taken) - 1)]
        rows = np.sort(ends * variables + of)
        to, of = np.divmod(rows[np.diff(rows, prepend=-1) > 0], variables)
        found[name] = {"to": to.astype(np.int32), "of": of.astype(np.int32)}
    return found


def program() -> Columns:
    """The facts of hmmer, a C program, its names as numbers."""
    files = {
        "allocated": ("StackAlloc", "HeapAlloc", "Global", "Function"),
        "flow": ("DirectFlow", "ExtReturn"),
        "load": ("Load",),
        "store": ("Store",),
    }
    with TemporaryDirectory() as folder:
        facts = hmmer(Path(folder)) / "facts"
        cells = {
            name: [cell for file in made_of for cell in _cells(facts / f"{file}.facts")]
            for name, made_of in files.items()
        }
    numbers: dict[str, int] = {}
    for names in cells.values():
        for name in names:
            numbers.setdefault(name, len(numbers))
    found: Columns = {}
    for relation, names in cells.items():
        rows = np.array([numbers[name] for name in names], dtype=np.int32).reshape(-1, 2)
        rows = np.unique(rows, axis=0)
        found[relation] = {"x": rows[:, 0].copy(), "y": rows[:, 1].copy()}
    return found


def _cells(file: Path) -> list[str]:
    return file.read_text().replace("\n", "\t").split("\t")[:-1]


def run(setting: Setting) -> Iterator[Case]:
    many = 2_000 if setting.small else MANY
    what = f"points-to, {short(many)} constraints"
    yield from _case(setting, what, lambda: constraints(many), MADE, MADE_SQL)
    if FOLDER is not None and (FOLDER / HMMER).exists() and not setting.small:
        yield from _case(setting, "points-to, hmmer", program, PROGRAM, PROGRAM_SQL, POINTS)


def _case(
    setting: Setting,
    what: str,
    make: Callable[[], Columns],
    rules: str,
    sql: str,
    expected: int | None = None,
) -> Iterator[Case]:
    ours, peer = Recursive(rules), DuckDB(sql)
    if not setting.wants(what, 20 + setting.wait(what, peer)):
        return
    data = setting.stored(what, make)
    case = setting.race("recursion", what, data, [ours, peer], expected, afresh=True)
    case.asks.append(faster(case, ours.name, [peer.name], 10.0))
    yield case
