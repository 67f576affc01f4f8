"""A small program for every feature of LANGUAGE.md, with its data and what it must give.

Computed by hand, in the order of its chapters. The oracle must give it, and so must the engine.
"""

from __future__ import annotations

from tests.corners import PAIR, Example
from tests.examples_of_functions import FUNCTIONS

DAY = 86_400_000_000_000
EDGES = {"E": (PAIR, [(1, 2), (2, 3), (1, 3), (3, 1)])}
NUMBERS = {"N": (("int",), [(-7,), (-1,), (0,), (2,), (7,)])}
SALES = {
    "S": (
        ("symbol", "int", "int"),
        [("a", 1, 5), ("a", 2, 5), ("a", 3, 2), ("b", 1, 1), ("c", 9, -4)],
    ),
    "P": (("symbol",), [("a",), ("b",), ("d",)]),
}
LEAST, GREATEST = -(1 << 63), (1 << 63) - 1


EXAMPLES = [
    Example(
        "a match that needs nothing that failed decides",
        'p(x) <- x = to_number("a"), !((x >= 1970 ; z < 1.0), F(_, z)).',
        {"p": set()},
        {"F": (("int", "float"), [(1, 0.25)])},
    ),
    # ------------------------------------------------------------------------------- weights
    Example(
        "two atoms at one list both weigh",
        """
        p(n) <- n = count : { D(b, _), D(b, _) }.
        q(b, count()) <- D(b, _), D(b, _).
        r(count()) <- D(b, _), D(b, _), D(c, _), D(c, _).
        """,
        {"p": {(13,)}, "q": {(1, 4), (2, 9)}, "r": {(169,)}},
        {"D": (("int", "int"), [(1, 2), (1, 3), (2, 3), (2, 4), (2, 5)])},
    ),
    # --------------------------------------------------------------------------------- rules
    Example(
        "join and chain",
        "tr(x, y, z) <- E(x, y), E(y, z), E(x, z), x < y < z.",
        {"tr": {(1, 2, 3)}},
        EDGES,
    ),
    Example(
        "facts are folded, several heads share a body",
        'f(1, "a", 2*3). f(2, "b", -1). g(x), h(y, x + 1) <- f(x, y, z), z > 0.',
        {"f": {(1, "a", 6), (2, "b", -1)}, "g": {(1,)}, "h": {("a", 2)}},
    ),
    Example(
        "an expression as an argument is tested or solved",
        """
        a(x, y) <- E(x, y), E(y, x - 1).
        b(y) <- E(1, y + 1).
        c(x, y) <- E(x, _), x = y - 10.
        d(x, y) <- E(x, _), 3 - y = x + 1.
        e(x) <- E(x, x + 1).
        """,
        {
            "a": {(2, 3), (3, 1)},
            "b": {(1,), (2,)},
            "c": {(1, 11), (2, 12), (3, 13)},
            "d": {(1, 1), (2, 0), (3, -1)},
            "e": {(1,), (2,)},
        },
        EDGES,
    ),
    Example(
        "equal columns, constants and wildcards",
        "loop(x) <- L(x, x).  one(y) <- L(1, y).  any(x) <- L(_, x), L(x, _).",
        {"loop": {(1,)}, "one": {(1,), (2,)}, "any": {(1,), (2,)}},
        {"L": (PAIR, [(1, 1), (1, 2), (2, 3)])},
    ),
    Example(
        "distinct, sets and ranges",
        """
        d(x, y, z) <- E(x, y), E(y, z), distinct(x, y, z).
        i(x) <- E(x, _), x in {1, 2, 9}.
        g(x) <- x in {3, 4}.
        r(x) <- x = range(1, 4).
        s(x) <- x = range(5, 0, -2).
        t(x, i) <- E(x, y), i = range(x, y).
        u(x) <- E(x, _), x = range(2, 4).
        n(x) <- x = range(4, 1).
        """,
        {
            "d": {(1, 2, 3), (2, 3, 1), (3, 1, 2)},
            "i": {(1,), (2,)},
            "g": {(3,), (4,)},
            "r": {(1,), (2,), (3,)},
            "s": {(5,), (3,), (1,)},
            "t": {(1, 1), (2, 2), (1, 2)},
            "u": {(2,), (3,)},
            "n": set(),
        },
        EDGES,
    ),
    Example(
        "a range with step 0 fails",
        "r(x) <- S(s), x = range(1, 4, s).",
        {},
        {"S": (("int",), [(0,), (1,)])},
        fails=True,
    ),
    Example(
        "negation of atoms, tests and groups",
        """
        leaf(x) <- E(_, x), !E(x, _).
        a(x) <- V(x), !(E(x, y), E(y, 1)).
        b(x) <- V(x), !(x < 3 ; E(x, 1)).
        c(x) <- V(x), !!E(x, y), y > 2.
        d(x) <- V(x), !(E(x, y), !E(y, 1)).
        e(x) <- V(x), not x in {1, 2}, !contains("3", to_string(x)).
        """,
        {
            "leaf": set(),
            "a": {(3,), (4,)},
            "b": {(4,)},
            "c": {(1,), (2,)},
            "d": {(2,), (4,)},
            "e": {(4,)},
        },
        {**EDGES, "V": (("int",), [(1,), (2,), (3,), (4,)])},
    ),
    Example(
        "or, with other variables in its branches",
        """
        p(x) <- E(x, 3) ; E(3, x).
        q(x, y) <- E(x, _), (y = x + 1 ; y in {7}), y > 2.
        """,
        {"p": {(1,), (2,)}, "q": {(2, 3), (3, 4), (1, 7), (2, 7), (3, 7)}},
        EDGES,
    ),
    Example(
        "propositions",
        'found() <- E(1, _). none() <- E(5, _). both() <- found(), !none(). say("yes") <- both().',
        {"found": {()}, "none": set(), "both": {()}, "say": {("yes",)}},
        EDGES,
    ),
    # ----------------------------------------------------------------------------- recursion
    Example(
        "linear, non-linear and mutual recursion",
        """
        path(x, z) <- E(x, z) ; path(x, y), E(y, z).
        tc(x, z) <- E(x, z).  tc(x, z) <- tc(x, y), tc(y, z).
        even(0).  odd(y) <- even(x), N(x, y).  even(y) <- odd(x), N(x, y).
        unreached(x) <- E(x, _), !path(4, x).
        """,
        {
            "path": {(1, 2), (2, 3), (1, 3), (4, 4)},
            "tc": {(1, 2), (2, 3), (1, 3), (4, 4)},
            "even": {(0,), (2,)},
            "odd": {(1,), (3,)},
            "unreached": {(1,), (2,)},
        },
        {"E": (PAIR, [(1, 2), (2, 3), (4, 4)]), "N": (PAIR, [(0, 1), (1, 2), (2, 3)])},
    ),
    Example(
        "widest paths, and a bound",
        """
        wide(1, 100).
        wide(y, max(min(d, w))) <- wide(x, d), W(x, y, w).
        near(1, 0).
        near(y, min(d + 2 * w)) <- near(x, d), W(x, y, w), d + 2 * w <= 10.
        comp(x, min(x)) <- W(x, _, _) ; W(_, x, _).
        comp(x, min(c)) <- comp(y, c), (W(x, y, _) ; W(y, x, _)).
        """,
        {
            "wide": {(1, 100), (2, 5), (3, 4)},
            "near": {(1, 0), (2, 10), (3, 4)},
            "comp": {(1, 1), (2, 1), (3, 1), (8, 8), (9, 8)},
        },
        {"W": (("int",) * 3, [(1, 2, 5), (2, 3, 4), (1, 3, 2), (3, 1, 7), (9, 8, 1)])},
    ),
    Example(
        "a cycle that improves for ever",
        "d(1, 0). d(y, min(c + w)) <- d(x, c), W(x, y, w).",
        {},
        {"W": (("int",) * 3, [(1, 2, 1), (2, 1, -2)])},
        fails=True,
    ),
    # ---------------------------------------------------------------------------- aggregates
    Example(
        "in the head",
        """
        c(p, count()) <- S(p, _, _).
        total(sum(v), 2 * max(v) + 1, mean(v)) <- S(_, _, v).
        d(p, count_distinct(v), count_distinct(v, i), any_value(i)) <- S(p, i, v).
        m(p, min(v)) <- S(p, _, v).  m(p, min(i)) <- S(p, i, _).  m("z", 0).  m("b", -9).
        group(p, v, sum(i) + v) <- S(p, i, v).
        """,
        {
            "c": {("a", 3), ("b", 1), ("c", 1)},
            "total": {(9, 11, 1.8)},
            "d": {("a", 2, 3, 1), ("b", 1, 1, 1), ("c", 1, 1, 9)},
            "m": {("a", 1), ("b", -9), ("c", -4), ("z", 0)},
            "group": {("a", 5, 8), ("a", 2, 5), ("b", 1, 2), ("c", -4, 5)},
        },
        SALES,
    ),
    Example(
        "over nothing",
        """
        a(count(), sum(v), count_distinct(p)) <- S(p, _, v), v > 99.
        b(count(), min(v)) <- S(_, _, v), v > 99.
        c(p, count()) <- S(p, _, v), v > 99.
        d(p, n, s) <- P(p), n = count : { S(p, _, _) }, s = sum v : { S(p, _, v) }.
        e(p, max v : { S(p, _, v) }) <- P(p).
        f(p, m) <- P(p), m = mean v : { S(p, _, v) }.
        """,
        {
            "a": {(0, 0, 0)},
            "b": set(),
            "c": set(),
            "d": {("a", 3, 12), ("b", 1, 1), ("d", 0, 0)},
            "e": {("a", 5), ("b", 1)},
            "f": {("a", 4.0), ("b", 1.0)},
        },
        SALES,
    ),
    Example(
        "in the body: scopes, witnesses, expressions",
        """
        rank(x, c) <- X(x), c = count : { X(y), y < x }.
        best(p, i, m) <- m = max v : { S(p, i, v) }.
        each(p, i) <- P(p), 5 = max v : { S(p, i, v) }.
        of(p, 2 * max v : S(p, _, v) + 1) <- P(p).
        at(x) <- X(x), S(_, x, max v : { S("a", _, v) }).
        two(n, k) <- n = count : { S(p, _, _) }, k = count : { P(p) }.
        deep(p) <- P(p), 2 < sum n : { S(p, i, _), n = count : { X(j), j <= i } }.
        none(p) <- P(p), !(n = count : { S(p, _, _) }, n > 0).
        some(v) <- v = any_value p : { P(p) }.
        kinds(n) <- n = count_distinct v : { S("a", _, v) }.
        """,
        {
            "rank": {(1, 0), (2, 1), (3, 2)},
            "best": {("a", 1, 5), ("a", 2, 5)},
            "each": {("a", 1), ("a", 2)},
            "of": {("a", 11), ("b", 3)},
            "at": {(1,), (2,)},
            "two": {(5, 3)},
            "deep": {("a",)},
            "none": {("d",)},
            "some": {("a",)},
            "kinds": {(2,)},
        },
        {**SALES, "X": (("int",), [(1,), (2,), (3,)])},
    ),
    Example(
        "an integer sum that overflows",
        "s(sum(x)) <- A(x).",
        {},
        {"A": (("int",), [(GREATEST,), (1,)])},
        fails=True,
    ),
    Example(
        "a sum that overflows on the way only",
        "s(sum(x)) <- A(x).",
        {"s": {(GREATEST - 1,)}},
        {"A": (("int",), [(GREATEST,), (1,), (-2,)])},
    ),
    Example(
        "a sum that overflows where nothing else holds",
        """
        p(x, y) <- E(x, y), F(y, _), s = sum a : { A(x, a) }, y > s.
        q(x, y, z) <- E(x, y), E(x, z), s = sum a : { A(x, a) }, y > s, z > y, F(z, _), F(y, _).
        """,
        {"p": {(2, 6)}, "q": set()},
        {
            "A": (("int",) * 2, [(1, GREATEST), (1, 1), (2, 3)]),
            "E": (("int",) * 2, [(1, 5), (1, 7), (2, 6), (2, 5)]),
            "F": (("int",) * 2, [(6, 1)]),
        },
    ),
    Example(
        "sums that overflow before a branch, and in branches, where nothing else holds",
        """
        a() <- E(y), sum x : { G(_) } > x, F(x, y).
        b(y) <- E(y), not (F(x, z), sum x : { G(_) } > z, G(z)).
        c(y) <- E(y), n = count : { F(x, z), sum x : { G(_) } > z, E(z) }, n = 0.
        """,
        {"a": set(), "b": {(4,)}, "c": {(4,)}},
        {
            "E": (("int",), [(4,)]),
            "F": (("int", "int"), [(-(2**63), 2)]),
            "G": (("int",), [(7,), (8,)]),
        },
    ),
    Example(
        "a sum that overflows where all else holds",
        "p(x, y) <- E(x, y), F(y, _), s = sum a : { A(x, a) }, y > s.",
        {},
        {
            "A": (("int",) * 2, [(1, GREATEST), (1, 1), (2, 3)]),
            "E": (("int",) * 2, [(1, 5), (1, 6), (2, 6)]),
            "F": (("int",) * 2, [(6, 1)]),
        },
        fails=True,
    ),
    Example(
        "heads that name their columns match by name",
        """
        p(x, most = max(y)) <- A(x, y).
        q(a = x, b = y) <- A(x, y), x < 2.
        q(b = x, a = y) <- A(x, y), x > 2.
        r(x, y) <- A(x, y), x = 1.
        r(y = x, x = y) <- A(x, y), x = 2.
        """,
        {
            "p": {(1, 5), (3, 7), (2, 1)},
            "q": {(1, 5), (6, 3), (7, 3)},
            "r": {(1, 5), (1, 2)},
        },
        {"A": (PAIR, [(1, 5), (3, 6), (3, 7), (2, 1)])},
    ),
    Example(
        "groups are the values of the terms",
        """
        c(x % 2, count()) <- A(x, _).
        m(x % 2, min(y)) <- A(x, y).
        b(x % 2, min(y), count()) <- A(x, y).
        """,
        {
            "c": {(1, 3), (0, 1)},
            "m": {(1, 5), (0, 1)},
            "b": {(1, 5, 3), (0, 1, 1)},
        },
        {"A": (PAIR, [(1, 5), (3, 6), (3, 7), (2, 1)])},
    ),
    Example(
        "one name, local to each of two aggregates",
        "a(n, m) <- n = count : { E(x, _) }, m = max x : { E(_, x) }.",
        {"a": {(4, 3)}},
        EDGES,
    ),
    Example(
        "several min and max together",
        """
        a(min(x), max(y)) <- E(x, y).  a(0, 1).
        b(x, min(y), max(y)) <- E(x, y).
        """,
        {"a": {(0, 3)}, "b": {(1, 2, 3), (2, 3, 3), (3, 1, 1)}},
        EDGES,
    ),
    Example(
        "relations that need a row of themselves first are empty",
        """
        path(x, z) <- E(x, y), path(y, z).
        ends(z) <- path(_, z).
        some(x, z) <- E(x, _), ends(z).
        none(x, y) <- E(x, y), !path(x, _), !ends(y).
        even(x) <- odd(x).
        odd(x) <- even(x).
        odd(x) <- even(x), path(x, _).
        best(max(x)) <- even(x).
        per(x, count()) <- path(x, _).
        all(count()) <- path(_, _).
        sums(n) <- E(_, _), n = count : { even(_) }.
        found() <- even(_).
        """,
        {
            "path": set(),
            "ends": set(),
            "some": set(),
            "none": {("a", "b")},
            "even": set(),
            "odd": set(),
            "best": set(),
            "per": set(),
            "all": {(0,)},
            "sums": {(0,)},
            "found": set(),
        },
        {"E": (("symbol", "symbol"), [("a", "b")])},
    ),
    *FUNCTIONS,
]
