"""Programs on which a rewriting that looks right is wrong: those of the known list, and others.

Each is a program, its data and what it must give, computed by hand. `fails`: it has no answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.oracle_values import Value

Rows = list[tuple[Value, ...]]


@dataclass(frozen=True)
class Example:
    """`data` holds for each relation its columns' types and its rows."""

    name: str
    program: str
    expected: dict[str, set[tuple[Value, ...]]]
    data: dict[str, tuple[tuple[str, ...], Rows]] = field(default_factory=dict)
    fails: bool = False

    def __str__(self) -> str:
        return self.name


PAIR = ("int", "int")


def symmetric(*edges: tuple[int, int]) -> Rows:
    return [*edges, *((b, a) for a, b in edges if a != b)]


CORNERS = [
    Example(
        "1 degree: a 4-cycle needs no four vertices",
        """
        cycle(a, b, c, d) <- E(a, b), E(b, c), E(c, d), E(d, a).
        embedded(a, b, c, d) <- E(a, b), E(b, c), E(c, d), E(d, a), distinct(a, b, c, d).
        """,
        {"cycle": {(1, 2, 1, 2), (2, 1, 2, 1)}, "embedded": set()},
        {"E": (PAIR, symmetric((1, 2)))},
    ),
    Example(
        "1 degree: a star of three takes one neighbour three times",
        "star(x) <- E(x, a), E(x, b), E(x, c).  three(x) <- E(x, a), E(x, b), E(x, c), a < b < c.",
        {"star": {(1,), (2,), (3,), (4,)}, "three": {(1,)}},
        {"E": (PAIR, symmetric((1, 2), (1, 3), (1, 4)))},
    ),
    Example(
        "2 order: the least vertex of a triangle is a value, not a rank",
        "t(x) <- E(x, y), E(y, z), E(x, z), x < y < z.",
        {"t": {(1,), (3,)}},
        {"E": (PAIR, symmetric((1, 2), (2, 9), (1, 9), (3, 4), (4, 9), (3, 9)))},
    ),
    Example(
        "2 order: a label on one vertex of the chain",
        """
        t(x, y, z) <- E(x, y), E(y, z), E(x, z), x < y < z, Red(x).
        c(count()) <- E(x, y), E(y, z), E(x, z), x < y < z, !Red(y).
        s(sum(x)) <- E(x, y), E(y, z), E(x, z), x < y < z.
        g(x, count()) <- E(x, y), E(y, z), E(x, z), x < y < z.
        """,
        {"t": {(3, 4, 9)}, "c": {(1,)}, "s": {(4,)}, "g": {(1, 1), (3, 1)}},
        {
            "E": (PAIR, symmetric((1, 2), (2, 9), (1, 9), (3, 4), (4, 9), (3, 9), (4, 5))),
            "Red": (("int",), [(3,), (2,)]),
        },
    ),
    Example(
        "2 order: a symmetric relation that is still growing",
        """
        p(x, y) <- E(x, y).
        p(x, z) <- p(x, y), p(y, z), x < y < z.
        """,
        {
            "p": {(1, 2), (2, 1), (2, 3), (3, 2), (3, 4), (4, 3), (1, 3), (2, 4), (1, 4)},
        },
        {"E": (PAIR, symmetric((1, 2), (2, 3), (3, 4)))},
    ),
    Example(
        "3 orbits: one loop is one homomorphic triangle, not six",
        """
        c(count()) <- E(x, y), E(y, z), E(z, x).
        d(count()) <- E(x, y), E(y, z), E(z, x), distinct(x, y, z).
        """,
        {"c": {(1,)}, "d": {(0,)}},
        {"E": (PAIR, [(7, 7)])},
    ),
    Example(
        "3 orbits: loops beside a triangle",
        "c(count()) <- E(x, y), E(y, z), E(z, x).",
        {"c": {(13,)}},
        {"E": (PAIR, symmetric((1, 2), (2, 3), (1, 3), (1, 1)))},
    ),
    Example(
        "4 reuse: siblings with different cuts read one list",
        "p(x, y, z) <- E(x, y), E(x, z), y < z.  q(x, y, z) <- E(x, y), E(x, z), y > z, y != 4.",
        {
            "p": {(1, 2, 3), (1, 2, 4), (1, 3, 4)},
            "q": {(1, 3, 2)},
        },
        {"E": (PAIR, [(1, 2), (1, 3), (1, 4)])},
    ),
    Example(
        "4 reuse: a cut that the second reader does not have",
        "r(b, c, d) <- E(1, b), E(1, c), E(1, d), b < c, E(b, d).",
        {"r": {(2, 3, 4), (2, 4, 4), (3, 4, 2)}},
        {"E": (PAIR, [(1, 2), (1, 3), (1, 4), (2, 4), (3, 2)])},
    ),
    Example(
        "5 memo: a count below depends on an inequality above",
        """
        c(x, n) <- V(x), n = count : { E(y, z), y != x }.
        d(x, count()) <- V(x), E(y, _), y != x.
        """,
        {
            "c": {(1, 1), (2, 2), (3, 3)},
            "d": {(1, 1), (2, 2), (3, 3)},
        },
        {"V": (("int",), [(1,), (2,), (3,)]), "E": (PAIR, [(1, 5), (1, 6), (2, 5)])},
    ),
    Example(
        "6 multiplicity: a dropped column still counts",
        """
        c(x, count()) <- E(x, _).
        s(sum(w)) <- A(x, _), B(x, w).
        m(mean(w)) <- A(x, _), B(x, w).
        n(k) <- k = count : { E(_, _) }.
        t(k) <- k = sum w : { A(x, _), B(x, w) }.
        """,
        {
            "c": {(1, 2), (2, 1)},
            "s": {(21,)},
            "m": {(7.0,)},
            "n": {(3,)},
            "t": {(21,)},
        },
        {
            "E": (PAIR, [(1, 5), (1, 6), (2, 5)]),
            "A": (PAIR, [(1, 1), (1, 2), (2, 1)]),
            "B": (PAIR, [(1, 10), (2, 1)]),
        },
    ),
    Example(
        "6 groups: the values of the head's terms, not the variables in them",
        """
        a(x / 2, sum(y)) <- E(x, y).
        b(x / 2, x / 2 + 1, count(), min(y)) <- E(x, y).
        c(cat(to_string(x % 2), "!"), mean(y)) <- E(x, y).
        d(x % 2 + count(), max(y)) <- E(x, y).
        e(x, x / 2, count()) <- E(x, y), y > 10.
        f(x / 2, min(y)) <- E(x, y).
        f(y, min(x)) <- E(x, y), y = 0.
        f(9, 4).
        g(7, count()) <- E(x, _), x > 5.
        h(x - x, count()) <- E(x, _), x > 5.
        k(10 / (x - 2), count()) <- E(x, y), x != 2.
        asked(n) <- b(1, 2, n, _).
        """,
        {
            "a": {(0, 50), (1, 33)},
            "b": {(0, 1, 2, 20), (1, 2, 3, 1)},
            "c": {("1!", 62 / 3), ("0!", 10.5)},
            "d": {(3, 30), (2, 20), (2, 12)},
            "e": {(1, 0, 2), (2, 1, 1), (3, 1, 1)},
            "f": {(0, 20), (1, 1), (9, 4)},
            "g": {(7, 0)},
            "h": set(),
            "k": {(-10, 2), (10, 1)},
            "asked": {(3,)},
        },
        {"E": (PAIR, [(1, 20), (1, 30), (2, 20), (3, 12), (2, 1)])},
    ),
    Example(
        "6 multiplicity: `;` is a union of bindings, not a sum of counts",
        """
        a(n) <- n = count : { (A(x) ; B(x)) }.
        b(n) <- n = count : { (A(x), C(y) ; A(x)) }.
        c(n) <- n = count : { (A(_) ; B(_)) }.
        d(n) <- n = sum x : { (A(x) ; A(x) ; B(x)) }.
        """,
        {"a": {(3,)}, "b": {(6,)}, "c": {(4,)}, "d": {(6,)}},
        {
            "A": (("int",), [(1,), (2,)]),
            "B": (("int",), [(2,), (3,)]),
            "C": (("int",), [(1,), (2,)]),
        },
    ),
    Example(
        "6 scopes: what an aggregate's value binds outside is another variable inside",
        """
        a(y) <- y = min z + y : { S("A", z), S("B", y) }.
        b(n) <- n = count : { E(n, _) }.
        c(n) <- n = sum n : { E(n, _) }.
        d(n, m) <- m = max y : { E(n, y) }, k = m + 1, n = k - 2.
        e(n, m) <- m = max y : { E(n, y) }, n > 0.
        f(n) <- 10 - n = count : { E(n, _) }.
        """,
        {
            "a": {(5,)},
            "b": {(3,)},
            "c": {(4,)},
            "d": {(5, 6)},
            "e": {(1, 6)},
            "f": {(7,)},
        },
        {
            "S": (("symbol", "int"), [("A", 3), ("A", 4), ("B", 2)]),
            "E": (PAIR, [(1, 5), (1, 6), (2, 5)]),
        },
    ),
    Example(
        "6 scopes: variables of what is aggregated are its own where its body binds them",
        """
        a(x, m) <- E(x, n), m = max n : { E(_, n) }.
        b(x, m) <- E(x, n), m = sum n + z : { E(z, _), z != n }.
        c(n, m) <- E(n, _), m = sum y : { E(x, y), k = min x : { E(x, n) ; E(x, 5) }, k = x }.
        d(n, sum n : { E(n, _) }) <- E(n, _).
        e(x, n) <- E(x, y), n = sum y : { E(x, y) }.
        """,
        {
            "a": {(1, 6), (2, 6)},
            "b": {(1, 19), (1, 22), (2, 19)},
            "c": {(1, 11), (2, 11)},
            "d": {(1, 4), (2, 4)},
            "e": {(1, 11), (2, 5)},
        },
        {"E": (PAIR, [(1, 5), (1, 6), (2, 5)])},
    ),
    Example(
        "7 failure: computed only where the rest of the body holds",
        """
        a(x, z) <- A(x, y), y != 0, x / y = z.
        b(x, z) <- A(x, y), x / y = z, y != 0.
        c(x) <- A(x, y), x / y > 1, !B(y).
        d(x) <- A(x, y), B(x), x % y = 0.
        e(x) <- A(x, y), Empty(x / y).
        f(x) <- A(x, y), z = x / y, Empty(z).
        g(x, to_number(s)) <- S(x, s), match("[0-9]+", s).
        """,
        {
            "a": {(4, 2), (9, 3)},
            "b": {(4, 2), (9, 3)},
            "c": {(4,), (9,)},
            "d": set(),
            "e": set(),
            "f": set(),
            "g": {(1, 12)},
        },
        {
            "A": (PAIR, [(4, 2), (9, 3), (7, 0)]),
            "B": (("int",), [(0,)]),
            "Empty": (("int",), []),
            "S": (("int", "symbol"), [(1, "12"), (2, "x")]),
        },
    ),
    Example(
        "7 failure: the rest of the body holds",
        "a(x) <- A(x, y), x / y > 1, x > 0.",
        {},
        {"A": (PAIR, [(4, 2), (7, 0)])},
        fails=True,
    ),
    Example(
        "7 failure: nothing follows by way of a result that is not there",
        "a(x) <- A(x, y), z = x / x, y < z < x.",
        {"a": set()},
        {"A": (PAIR, [(0, 100)])},
        fails=True,
    ),
    Example(
        "7 failure: also where no other part of the program looks at it",
        "a(x) <- A(x, y), z = x / y.",
        {},
        {"A": (PAIR, [(4, 2), (7, 0)])},
        fails=True,
    ),
    Example(
        "7 failure: below a negation a clean witness decides",
        "a(x) <- V(x), !(A(x, y), 8 / y > 1).",
        {"a": {(2,)}},
        {"V": (("int",), [(1,), (2,)]), "A": (PAIR, [(1, 0), (1, 2), (2, 8)])},
    ),
    Example(
        "7 failure: below a negation without a clean witness",
        "a(x) <- V(x), !(A(x, y), 8 / y > 1).",
        {},
        {"V": (("int",), [(1,)]), "A": (PAIR, [(1, 0), (1, 8)])},
        fails=True,
    ),
    Example(
        "7 failure: in an aggregate whose value no binding needs",
        "a(x, n) <- V(x), n = count : { A(x, y), 8 / y > 1 }, x > 1.",
        {"a": {(2, 1)}},
        {"V": (("int",), [(1,), (2,)]), "A": (PAIR, [(1, 0), (2, 4), (2, 8)])},
    ),
    Example(
        "7 failure: in an aggregate",
        "a(x, n) <- V(x), n = count : { A(x, y), 8 / y > 1 }.",
        {},
        {"V": (("int",), [(1,), (2,)]), "A": (PAIR, [(1, 0), (1, 2), (2, 4)])},
        fails=True,
    ),
    Example(
        "7 failure: on one branch of `;`, though the other one holds",
        "a(x) <- V(x), (x = 0 ; 1 / x > 0).",
        {},
        {"V": (("int",), [(0,), (1,)])},
        fails=True,
    ),
    Example(
        "7 failure: below a negation, `;` is decided by a branch that holds",
        "a(x) <- V(x), !(x = 0 ; 1 / x > 0).",
        {"a": {(2,)}},
        {"V": (("int",), [(0,), (1,), (2,)])},
    ),
    Example(
        "7 failure: two expressions fail on different bindings, each ruled out by the other",
        "a(x, y) <- A(x, y), 4 / x = 2, 6 / y = 3.",
        {"a": {(2, 2)}},
        {"A": (PAIR, [(0, 1), (1, 0), (2, 2)])},
    ),
    Example(
        "8 symbols: compared by text, whatever came first",
        """
        lt(x, y) <- S(x), S(y), x < y.
        least(min(x)) <- S(x).
        o(x, y) <- S(x), S(y), ord(x) < ord(y).
        """,
        {
            "lt": {("B", "a"), ("B", "b"), ("B", "é"), ("a", "b"), ("a", "é"), ("b", "é")},
            "least": {("B",)},
            "o": {("B", "a"), ("B", "b"), ("B", "é"), ("a", "b"), ("a", "é"), ("b", "é")},
        },
        {"S": (("symbol",), [("é",), ("b",), ("a",), ("B",)])},
    ),
    Example(
        "9 recursive min: a test that better values keep satisfying",
        """
        dist(0, 0).
        dist(y, min(d + w)) <- dist(x, d), W(x, y, w), d < 3.
        """,
        {"dist": {(0, 0), (1, 2), (2, 1), (3, 3)}},
        {"W": (("int",) * 3, [(0, 1, 5), (0, 2, 1), (2, 1, 1), (1, 3, 1), (3, 4, 1)])},
    ),
    Example(
        "9 recursive min: a value that improves late reaches all that used it",
        """
        dist(0, 0).
        dist(y, min(d + w)) <- dist(x, d), W(x, y, w).
        far(x) <- dist(x, d), d > 3.
        """,
        {"dist": {(0, 0), (1, 3), (2, 2), (3, 4), (4, 1)}, "far": {(3,)}},
        {
            "W": (
                ("int",) * 3,
                [(0, 1, 9), (1, 3, 1), (0, 4, 1), (4, 2, 1), (2, 1, 1), (3, 3, 0)],
            )
        },
    ),
    Example(
        "10 inversion: y + 1 is solved, y * 2 is tested",
        """
        a(y) <- A(y + 1).
        b(y) <- A(x), x = 3 - y.
        c(y) <- A(y * 2), A(y).
        d(y) <- A(y), y * 2 = 2.
        """,
        {
            "a": {(0,), (1,), (-(1 << 62) - 1,), (-(1 << 63),)},
            "b": {(2,), (1,), ((1 << 62) + 3,), (-(1 << 63) + 2,)},
            "c": {(1,), (-(1 << 63) + 1,)},
            "d": {(1,), (-(1 << 63) + 1,)},
        },
        {"A": (("int",), [(1,), (2,), (-(1 << 62),), (-(1 << 63) + 1,)])},
    ),
    Example(
        "a negation that can fail waits for both sides of a cross product",
        "p(x, y) <- A(x), B(y), !(C(z), z = x / y).",
        {"p": {(4, 3), (6, 2)}},
        {
            "A": (("int",), [(4,), (6,)]),
            "B": (("int",), [(2,), (3,)]),
            "C": (("int",), [(2,)]),
        },
    ),
    Example(
        "recursion: two atoms of a relation that are no composition of paths",
        "p(a, b, c, d) <- F(a, b, c, d). p(a, b, c, d) <- p(a, x, y, d), p(d, b, c, z).",
        {
            "p": {
                (0, 1, 0, 0),
                (0, 1, 1, 0),
                (0, 1, 1, 2),
                (0, 1, 2, 0),
                (0, 1, 2, 2),
                (0, 2, 1, 0),
                (1, 1, 2, 1),
                (2, 1, 2, 2),
            }
        },
        {
            "F": (
                ("int",) * 4,
                [(0, 1, 0, 0), (0, 1, 1, 2), (0, 2, 1, 0), (1, 1, 2, 1), (2, 1, 2, 2)],
            )
        },
    ),
    Example(
        "order: numbers and picks of joined rows, and a relation that reads them",
        """
        r(x, y, row_number(partition by x order by y desc)) <- E(x, y), N(y).
        best(x, top(2, y by s, y), count()) <- E(x, y), L(y, s).
        texts(x, string_agg(s, "+" order by y desc)) <- E(x, y), L(y, s).
        second(y, s) <- r(x, y, 2), best(x, y, _), texts(x, s).
        """,
        {
            "r": {(1, 4, 1), (1, 3, 2), (1, 2, 3), (2, 3, 1)},
            "best": {(1, 2, 3), (1, 4, 3), (2, 3, 1)},
            "texts": {(1, "a+b+a"), (2, "b")},
            "second": set(),
        },
        {
            "E": (PAIR, [(1, 2), (1, 3), (1, 4), (2, 3)]),
            "N": (("int",), [(2,), (3,), (4,), (5,)]),
            "L": (("int", "symbol"), [(2, "a"), (3, "b"), (4, "a"), (5, "c")]),
        },
    ),
]
