"""Patterns of undirected edges: as rules, as SQL, and how often they are known to occur.

Rules read E, which holds each edge both ways. SQL reads e, each edge once from the smaller id to
the larger, and s, both ways, where an edge's direction is open.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations


@dataclass(frozen=True, slots=True)
class Pattern:
    """`edges` as pairs of letters. `less`: pairs that break the symmetry, for SQL to say."""

    name: str
    edges: str
    automorphisms: int
    less: str

    @property
    def vertices(self) -> str:
        return "".join(sorted(set(self.edges) - {" "}))

    def rule(self) -> str:
        """Counts what is there, once each: cliques, whose vertices are put in order."""
        return f"n(count()) <- {self._atoms()}, {' < '.join(self.vertices)}."

    def distinct_rule(self) -> str:
        """Counts all injective maps: as many as there are automorphisms for each."""
        return f"n(count()) <- {self._atoms()}, distinct({', '.join(self.vertices)})."

    def listing(self) -> str:
        """As `rule`, but gives them."""
        head = ", ".join(self.vertices)
        return f"r({head}) <- {self._atoms()}, {' < '.join(self.vertices)}."

    def _atoms(self) -> str:
        return ", ".join(f"E({x}, {y})" for x, y in self.edges.split())

    def sql(self, select: str = "count(*)") -> str:
        """A join of the edges that gives each occurrence once."""
        tables, conditions = [], []
        first: dict[str, str] = {}
        less = self.less.split()
        for edge in self.edges.split():
            tables.append(f"{'e' if edge in less else 's'} {edge}")
            for vertex, column in zip(edge, "ab", strict=True):
                here = f"{edge}.{column}"
                if first.setdefault(vertex, here) != here:
                    conditions.append(f"{first[vertex]} = {here}")
        for pair in combinations(self.vertices, 2):
            x, y = (first[vertex] for vertex in pair)
            if "".join(pair) in self.edges.split():
                continue
            conditions.append(f"{x} < {y}" if "".join(pair) in less else f"{x} <> {y}")
        if select == "*":
            select = ", ".join(f"{first[vertex]} as {vertex}" for vertex in self.vertices)
        return f"select {select} from {', '.join(tables)} where {' and '.join(conditions)}"

    def cypher(self) -> str:
        """For Kuzu, whose relationships go from the smaller id to the larger."""
        edges = ", ".join(f"({x}:V)-[:E]->({y}:V)" for x, y in self.edges.split())
        return f"match {edges} return count(*)"


def clique(size: int) -> Pattern:
    letters = "abcdefg"[:size]
    edges = " ".join("".join(pair) for pair in combinations(letters, 2))
    name = "triangles" if size == 3 else f"K{size}"
    automorphisms = 1
    for factor in range(2, size + 1):
        automorphisms *= factor
    return Pattern(name, edges, automorphisms, edges)


P1 = Pattern("P1", "ab ac ad bc bd", 4, "ab cd")
P3 = Pattern("P3", "ab ac ad ae bc bd be cd", 4, "ab cd")
P4 = Pattern("P4", "ab ac ad bc bd ce de", 4, "ab cd")
P5 = Pattern("P5", "ab ac ad ae bc be cd de", 8, "bd ce bc")
P6 = Pattern("P6", "ab ac ad ae bc bd be cd de", 12, "ab bd ce")
HOUSE = Pattern("house", "ab ac ae bc bd de", 2, "ab")
Q10 = Pattern("q10", "ab ac ad bc bd cf de", 4, "ab cd")

# The best SQL for four-cliques that was found by hand: triangles first, then pairs of them.
K4_STAGED = """
    with t as materialized (
        select ab.a as a, ab.b as b, bc.b as c from e ab, e ac, e bc
        where ab.a = ac.a and ab.b = bc.a and ac.b = bc.b)
    select count(*) from t x, t y, e cd
    where x.a = y.a and x.b = y.b and cd.a = x.c and cd.b = y.c"""

# The same for P1: how many triangles each edge has, and so how many pairs of them.
P1_STAGED = """
    with t as materialized (
        select ab.a as a, ab.b as b, bc.b as c from e ab, e ac, e bc
        where ab.a = ac.a and ab.b = bc.a and ac.b = bc.b)
    select cast(sum(n * (n - 1) // 2) as bigint) from (
        select x, y, count(*) as n from (
            select a as x, b as y from t
            union all select a, c from t
            union all select b, c from t)
        group by x, y)"""

# Occurrences, each counted once, computed by programs that share nothing with this project.
KNOWN = {
    ("email-Enron", "triangles"): 727_044,
    ("ego-Twitter", "triangles"): 13_082_506,
    ("cnr-2000", "triangles"): 20_977_629,
    ("ogbl-ddi", "triangles"): 273_582_603,
    ("email-Enron", "K4"): 2_341_639,
    ("ego-Twitter", "K4"): 104_929_938,
    ("cnr-2000", "K4"): 159_814_399,
    ("email-Enron", "K5"): 5_809_356,
    ("ego-Twitter", "K5"): 784_699_022,
    ("cnr-2000", "K5"): 1_252_511_081,
    ("email-Enron", "P1"): 36_528_276,
    ("ego-Twitter", "P1"): 1_200_274_418,
    ("wiki-Vote", "triangles"): 608_389,
    ("wiki-Vote", "K4"): 2_077_903,
    ("wiki-Vote", "K5"): 4_514_137,
    ("wiki-Vote", "P1"): 40_544_543,
    ("wiki-Vote", "P3"): 810_216_972,
    ("wiki-Vote", "P4"): 1_533_407_659,
    ("wiki-Vote", "P5"): 301_301_877,
    ("wiki-Vote", "P6"): 98_471_630,
    ("email-Enron", "P3"): 719_709_974,
    ("email-Enron", "P4"): 1_019_394_461,
    ("email-Enron", "P5"): 243_184_738,
    ("email-Enron", "P6"): 101_383_042,
    ("email-Enron", "house"): 5_677_082_981,
    ("email-Enron", "q10"): 1_917_418_880_956,
}
