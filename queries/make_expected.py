"""Computes what the programs beside it must answer, without gdatalog: networkx and plain Python.

    python queries/make_expected.py [folder]

expected/NAME.txt is what `gdatalog queries/NAME.dl` prints into a pipe, its rows sorted: for
each `?-` a line of column names and a line for each row, tab-separated; between two answers an
empty line. There is one function for each program, hence the length.
"""

from __future__ import annotations

import csv
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from itertools import combinations, permutations, product
from pathlib import Path
from typing import Any

import networkx as nx

HERE = Path(__file__).parent
Row = tuple[Any, ...]
Block = tuple[str, Iterable[Row]]  # the names of the columns, the rows


def read(name: str) -> list[list[str]]:
    """The rows of a data file, without its header."""
    with open(HERE / "data" / name, encoding="utf-8", newline="") as file:
        if name.endswith(".facts"):
            return [line.rstrip("\n").split("\t") for line in file]
        return list(csv.reader(file))[1:]


def facts(program: str, relation: str) -> list[list[str]]:
    """The facts of one relation that stand in a program."""
    text = re.sub("//.*", "", (HERE / f"{program}.dl").read_text(encoding="utf-8"))
    value = r'(?:"[^"]*"|\d+)'
    found = re.findall(rf"\b{relation}\(({value}(?:, {value})*)\)\.", text)
    return [[part.strip().strip('"') for part in args.split(", ")] for args in found]


def closure(pairs: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    graph = nx.DiGraph(pairs)
    return {
        (x, y) for x in graph for near in graph[x] for y in {near} | nx.descendants(graph, near)
    }


def coauthors() -> nx.Graph:
    return nx.Graph((int(a), int(b)) for a, b in read("coauthors.csv"))


def triangles() -> Iterator[Block]:
    graph = nx.Graph()
    graph.add_weighted_edges_from((a, b, int(n)) for a, b, n in read("les_miserables.csv"))
    found = [tuple(sorted(c)) for c in nx.enumerate_all_cliques(graph) if len(c) == 3]
    yield "x y z", found
    yield "how_many", [(len(found),)]
    each = nx.triangles(graph)
    yield "character triangles", [(x, n) for x, n in each.items() if n >= 60]
    weakest = [(*t, min(graph[a][b]["weight"] for a, b in combinations(t, 2))) for t in found]
    yield "x y z chapters", [row for row in weakest if row[3] >= 8]


def cliques() -> Iterator[Block]:
    found = [tuple(sorted(c)) for c in nx.enumerate_all_cliques(coauthors())]
    sizes = Counter(map(len, found))
    yield "size how_many", [(k, sizes[k]) for k in (3, 4, 5, 6)]
    yield "a b c d e f g", [c for c in found if len(c) == 7]


def squares() -> Iterator[Block]:
    graph = nx.Graph((int(a), int(b)) for a, b in read("streets.csv"))
    whole: set[Row] = set()
    cut: set[Row] = set()
    for a, c in combinations(sorted(graph), 2):
        for b, d in combinations(sorted(nx.common_neighbors(graph, a, c)), 2):
            if a < b:
                chord = graph.has_edge(a, c) or graph.has_edge(b, d)
                (cut if chord else whole).add((a, b, c, d))
    yield "kind blocks", [("whole", len(whole)), ("cut", len(cut))]
    yield "a b c d", [block for block in whole if block[0] < 100]


def dependencies() -> Iterator[Block]:
    needs = [(p, q) for p, q in read("packages.csv")]
    depends = closure(needs)
    yield "package", [(q,) for p, q in depends if p == "shop"]
    yield "package other", [(p, q) for p, q in depends if (q, p) in depends and p <= q]
    carried = Counter(q for _, q in depends)
    yield "package dependents", [(q, n) for q, n in carried.items() if n >= 10]
    yield "package", [(p,) for p in {p for p, _ in needs} - {q for _, q in needs}]


def same_generation() -> Iterator[Block]:
    tree = nx.DiGraph((of, who) for who, of in facts("same_generation", "parent"))
    depth = nx.shortest_path_length(tree, "Nicolaus the Elder")
    rows = []
    for x, y in combinations(sorted(tree), 2):
        if depth[x] == depth[y]:
            shared = nx.lowest_common_ancestor(tree, x, y)
            rows.append((x, y, depth[x] - depth[shared] - 1))
    yield "x y degree", rows
    yield "who number", depth.items()


def components() -> Iterator[Block]:
    parts = [(min(part), part) for part in nx.connected_components(coauthors())]
    yield "component authors", [(least, len(part)) for least, part in parts]
    yield (
        "author component n",
        [(x, least, len(part)) for least, part in parts if len(part) < 5 for x in part],
    )


def shortest_paths() -> Iterator[Block]:
    graph = nx.Graph()
    graph.add_weighted_edges_from((a, b, int(m)) for a, b, m in read("trains.csv"))
    before, time = nx.dijkstra_predecessor_and_distance(graph, "Bern")
    yield "city minutes last_stop", [(y, time[y], x) for y in graph for x in before[y]]
    ways = nx.all_shortest_paths(graph, "Bern", "Davos", weight="weight")
    yield "station minutes", {(x, time[x]) for way in ways for x in way}
    between = dict(nx.all_pairs_dijkstra_path_length(graph))
    most = max(t for row in between.values() for t in row.values())
    yield (
        "minutes x y",
        [(most, x, y) for x, y in permutations(graph, 2) if between[x][y] == most and x < y],
    )


def widest_paths() -> Iterator[Block]:
    lines = {(x, y, int(w)) for a, b, w in read("links.csv") for x, y in ((a, b), (b, a))}
    widths = sorted({w for *_, w in lines})

    def reached(least: int, start: str) -> set[str]:
        graph = nx.Graph((x, y) for x, y, w in lines if w >= least)
        return nx.node_connected_component(graph, start) if start in graph else {start}

    best = {y: w for w in widths for y in reached(w, "r00")}
    best["r00"] = sys.maxsize
    slow = [y for y in best if best[y] < 1000]
    yield "router mbits", [(y, best[y]) for y in slow]
    # A line (x, z) holds y back if x gets more, the line is as wide as what y gets, and the
    # rest of the way, from z to y, is no narrower and passes none that gets more.
    rows = set()
    for y in slow:
        w = best[y]
        same = nx.Graph((a, b) for a, b, v in lines if v >= w and best[a] == best[b] == w)
        near = nx.node_connected_component(same, y) if y in same else {y}
        rows |= {(y, w, x, z) for x, z, v in lines if v == w and best[x] > w and z in near}
    yield "router mbits line_from line_to", rows


def points_to() -> Iterator[Block]:
    """A work list over sets: what a variable may hold flows to where it is copied."""
    holds: dict[str, set[str]] = defaultdict(set)
    for p, v in read("points_to/address_of.facts"):
        holds[p].add(v)
    while True:
        before = sum(map(len, holds.values()))
        for to, source in read("points_to/copy.facts"):
            holds[to] |= holds[source]
        for to, source in read("points_to/load.facts"):
            for cell in list(holds[source]):
                holds[to] |= holds[cell]
        for to, source in read("points_to/store.facts"):
            for cell in list(holds[to]):
                holds[cell] |= holds[source]
        if sum(map(len, holds.values())) == before:
            break
    yield "pointer variable", [(p, v) for p in holds for v in holds[p]]
    yield "p q", [(p, q) for p, q in combinations(sorted(holds), 2) if holds[p] & holds[q]]


def reaching_definitions() -> Iterator[Block]:
    """By walking every path from a definition (or from the start) to the next one."""
    flow: dict[str, list[str]] = defaultdict(list)
    for line, after in facts("reaching_definitions", "flow"):
        flow[line].append(after)
    defines = {(line, v) for line, v in facts("reaching_definitions", "defines")}
    uses = [(line, v) for line, v in facts("reaching_definitions", "uses")]

    def seen_from(starts: list[str], v: str) -> set[str]:
        met: set[str] = set()
        left = list(starts)
        while left:
            line = left.pop()
            if line not in met:
                met.add(line)
                left += [] if (line, v) in defines else flow[line]
        return met

    sees = {
        (int(k), v, int(d))
        for (k, v), (d, w) in product(uses, defines)
        if v == w and k in seen_from(flow[d], v)
    }
    yield "line variable defined_in", sees
    yield "line variable", [(int(k), v) for k, v in uses if k in seen_from(["1"], v)]
    seen = {(d, v) for _, v, d in sees}
    yield "line variable", {(int(d), v) for d, v in defines} - seen


def org_chart() -> Iterator[Block]:
    staff = {
        name: (boss, title, mail, int(pay)) for name, boss, title, mail, pay in read("staff.csv")
    }
    bosses = {boss for boss, *_ in staff.values()}

    def chain(name: str) -> list[str]:
        boss = staff[name][0]
        return [*(chain(boss) if boss else []), name]

    yield (
        "person title chain",
        [
            (name, title, " > ".join(chain(name)))
            for name, (_, title, _, _) in staff.items()
            if "Finance" in title and name not in bosses
        ],
    )
    heads = []
    for head, (_, title, _, _) in staff.items():
        if title.startswith("Head of "):
            reports = [name for name in staff if head in chain(name)[:-1]]
            pay = sum(staff[name][3] for name in reports)
            heads.append((title.removeprefix("Head of "), head, len(reports), pay))
    yield "team head people salaries", heads
    domains = {name: mail.split("@")[1] for name, (_, _, mail, _) in staff.items()}
    yield "person domain", [(x, domain) for x, domain in domains.items() if domain != "example.com"]
    handles = []
    for name, (_, title, _, _) in staff.items():
        if "Senior" in title:
            first, last = name.split(" ")
            handles.append((name, f"{first[0].upper()}.{last.upper()}"))
    yield "person handle", handles


def money_flow() -> Iterator[Block]:
    sent: dict[str, list[Row]] = defaultdict(list)
    for ident, payer, payee, amount, at in read("transfers.csv"):
        sent[payer].append((int(ident), payer, payee, int(amount), datetime.fromisoformat(at)))
    rings = [
        (one, two, three)
        for payer in list(sent)
        for one in sent[payer]
        for two in sent[one[2]]
        for three in sent[two[2]]
        if three[2] == payer and len({payer, two[1], three[1]}) == 3
        if one[4] < two[4] < three[4] <= one[4] + timedelta(days=7)
    ]
    yield (
        "i j k a b sent started c back ended",
        [
            (
                *(i[0], j[0], k[0], i[1], i[2], i[3], i[4].isoformat()),
                *(j[2], k[3], k[4].isoformat()),
            )
            for i, j, k in rings
            if 0.9 * i[3] <= j[3] <= i[3] and 0.9 * j[3] <= k[3] <= j[3]
        ],
    )
    counted = Counter(payment[1] for ring in rings for payment in ring)
    yield "account rings", [(account, n) for account, n in counted.items() if n > 1]


def clustering() -> Iterator[Block]:
    graph = coauthors()
    degree, local = dict(graph.degree()), nx.clustering(graph)
    yield "coauthors authors", Counter(degree.values()).items()
    yield (
        "figure value",
        [
            ("authors", float(len(graph))),
            ("mean degree", sum(degree.values()) / len(graph)),
            ("mean clustering", nx.average_clustering(graph)),
            ("transitivity", nx.transitivity(graph)),
        ],
    )
    yield "author coauthors clustering", [(x, d, local[x]) for x, d in degree.items() if d >= 12]


def access() -> Iterator[Block]:
    groups = nx.DiGraph((a, b) for a, b in facts("access", "in_group"))
    folders = nx.DiGraph((a, b) for a, b in facts("access", "lies_in"))
    rows = defaultdict(set)
    for kind in ("grant", "deny"):
        for to, right, on in facts("access", kind):
            for (person,), path in product(facts("access", "person"), folders):
                member = to in {person} | nx.descendants(groups, person)
                if member and on in {path} | nx.descendants(folders, path):
                    rows[kind].add((person, right, path, to, on))
    granted = {row[:3] for row in rows["grant"]}
    denied = {row[:3] for row in rows["deny"]}
    yield "person right path", granted - denied
    yield (
        "person right path denied_to denied_on",
        [row for row in rows["deny"] if row[:3] in granted],
    )


def recommendations() -> Iterator[Block]:
    graph = coauthors()
    rows = []
    for x in graph:
        others = set(graph) - set(graph[x]) - {x}
        shared = {y: len(list(nx.common_neighbors(graph, x, y))) for y in others}
        most = max(shared.values())
        rows += [(x, most, y) for y in shared if shared[y] == most >= 3 and x < 50]
    yield "author n candidate", rows


PROGRAMS: list[Callable[[], Iterator[Block]]] = [
    triangles,
    cliques,
    squares,
    dependencies,
    same_generation,
    components,
    shortest_paths,
    widest_paths,
    points_to,
    reaching_definitions,
    org_chart,
    money_flow,
    clustering,
    access,
    recommendations,
]


def text_of(blocks: Iterable[Block]) -> str:
    texts = []
    for names, rows in blocks:
        lines = [[str(cell) for cell in row] for row in sorted(rows)]
        texts.append("".join("\t".join(line) + "\n" for line in [names.split(), *lines]))
    return "\n".join(texts)


def make(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for program in PROGRAMS:
        path = folder / f"{program.__name__}.txt"
        path.write_text(text_of(program()), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    make(Path(sys.argv[1]) if sys.argv[1:] else HERE / "expected")
