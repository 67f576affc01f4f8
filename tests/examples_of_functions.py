"""A small program for each kind of function of LANGUAGE.md, with what it must give."""

from __future__ import annotations

from tests.corners import Example
from tests.oracle_values import Dur, Ts

DAY = 86_400_000_000_000
NUMBERS = {"N": (("int",), [(-7,), (-1,), (0,), (2,), (7,)])}
LEAST, GREATEST = -(1 << 63), (1 << 63) - 1
WIDE = {
    "E": (("int", "int"), [(10, 400), (-2, 3), (3, 2)]),
    "F": (("int",), [(2,)]),
    "G": (("int", "int"), [(LEAST, -1), (LEAST, 2)]),
    "H": (("int", "int"), [((1 << 31) - 1, -(1 << 31))]),  # stored in 32 bits
}


def calls(*pairs: tuple[str, object], types: str = "") -> Example:
    """Facts `r1(e1). r2(e2).` with the value of each expression."""
    text = "\n".join(f"r{at}({expr})." for at, (expr, _) in enumerate(pairs))
    values = {f"r{at}": {(value,)} for at, (_, value) in enumerate(pairs)}
    return Example(f"functions: {types}", text, values)  # type: ignore[arg-type]


FUNCTIONS = [
    Example(
        "integers: truncation, signs, powers",
        """
        q(x, x / 2, x % 2) <- N(x).
        p(x, x ^ 2, x ^ 0) <- N(x).
        i(x, x ^ -1) <- N(x), x != 0.
        """,
        {
            "q": {(-7, -3, -1), (-1, 0, -1), (0, 0, 0), (2, 1, 0), (7, 3, 1)},
            "p": {(-7, 49, 1), (-1, 1, 1), (0, 0, 1), (2, 4, 1), (7, 49, 1)},
            "i": {(-7, 0), (-1, -1), (2, 0), (7, 0)},
        },
        NUMBERS,
    ),
    calls(
        ("2^2^3", 256),
        ("-2^2", -4),
        ("7 - 2 - 1", 4),
        (f"{GREATEST} + 1", LEAST),
        ("-(0 - 9223372036854775807 - 1)", LEAST),
        ("abs(0 - 9223372036854775807 - 1)", LEAST),
        (f"{GREATEST} * 3", GREATEST - 2),
        (f"0 - {GREATEST} - 2", GREATEST),
        (f"{GREATEST} / -1", -GREATEST),
        ("2^62", 1 << 62),
        ("(-2)^63", LEAST),
        ("(-2097152)^3", LEAST),
        ("3037000499^2", 9223372030926249001),
        ("(-1)^9223372036854775807", -1),
        ("10^-400", 0),
        ("0^0", 1),
        (f"({LEAST})^1", LEAST),
        (f"({LEAST})^-1", 0),
        ("(0 - 9223372036854775807 - 1) % -1", 0),
        ("abs(-3)", 3),
        ("1 bshl 65", 2),
        ("-8 bshr 1", -4),
        ("-1 bshru 63", 1),
        ("6 band 3", 2),
        ("6 bor 3", 7),
        ("6 bxor 3", 5),
        ("bnot 0", -1),
        ("2 land 4", 1),
        ("0 lor 0", 0),
        ("1 lxor 1", 0),
        ("lnot 5", 0),
        ("min(3, 1, 2)", 1),
        ("max(3, 1, 2)", 3),
        ('to_number("-12")', -12),
        ("to_int(-2.75)", -2),
        ("ord(3)", 3),
        types="int",
    ),
    calls(
        ("2.5 * 2.0", 5.0),
        ("1.0 / 4.0", 0.25),
        ("-5.5 % 2.0", -1.5),
        ("2.0 ^ -1.0", 0.5),
        ("floor(-1.5)", -2.0),
        ("ceil(-0.5)", 0.0),
        ("sqrt(6.25)", 2.5),
        ("exp(0.0)", 1.0),
        ("log(1.0)", 0.0),
        ("to_float(3)", 3.0),
        ('to_float("1e3")', 1000.0),
        ("abs(-0.5)", 0.5),
        ("inf", float("inf")),
        ("itof(2)", 2.0),
        types="float",
    ),
    calls(
        ('"a" + "b"', "ab"),
        ('cat("a", "b", "c")', "abc"),
        ('strlen("é€")', 2),
        ('substr("hello", 1, 3)', "ell"),
        ('substr("hello", 3, 9)', "lo"),
        ('substr("hello", 9, 1)', ""),
        ('substr("hello", -1, 1)', ""),
        ('upper("aé")', "AÉ"),
        ('lower("AÉ")', "aé"),
        ('split_part("a-b-c", "-", 2)', "b"),
        ('split_part("a-b-c", "-", 4)', ""),
        ("to_string(-7)", "-7"),
        ("to_string(0.1)", "0.1"),
        ("to_string(2.0)", "2.0"),
        ("to_string(true)", "true"),
        ("to_string(@2026-11-20)", "2026-11-20"),
        ("to_string(@2026-11-20T08:30:00.5)", "2026-11-20T08:30:00.5"),
        ('to_symbol("x")', "x"),
        ('contains("b", "abc")', True),
        ('starts_with("abc", "ab")', True),
        ('match("a.c", "abcd")', False),
        ('match("[[:digit:]]+", "123")', True),
        types="symbol",
    ),
    calls(
        ("@2026-11-20", Ts(1795132800_000_000_000)),
        ("year(@2026-11-20T23:59:59)", 2026),
        ("month(@2026-11-20)", 11),
        ("day(@1969-12-31T23:59:59.9)", 31),
        ("seconds_between(@2026-11-20, @2026-11-21T00:00:01.5)", 86401.5),
        types="timestamp",
    ),
    *(
        Example(f"fails: {expr}", f"r({expr}).", {}, fails=True)
        for expr in (
            "1 / 0",
            "1 % 0",
            "0 ^ -1",
            "2^63",
            "10^400",
            "3037000500^2",
            "2097152^3",
            "(-2)^64",
            "(-2)^65",
            "(-2097153)^3",
            f"({LEAST}) / -1",
            f"({LEAST})^2",
            "1.0 / 0.0",
            "sqrt(-1.0)",
            "log(-1.0)",
            "inf - inf",
            "to_int(inf)",
            'to_number("x")',
            'to_float("x")',
        )
    ),
    *(
        Example(f"fails: {rules}", rules, {}, WIDE, fails=True)
        for rules in (
            "r(x ^ y) <- E(x, y).",
            "r(x) <- E(x, y), x ^ y > 3.",
            "r(x) <- E(x, y), !(x ^ y > 3).",
            "r(x) <- E(x, y), !E(_, x ^ y).",
            "r(x) <- E(x, y), E(x ^ y, _).",
            "r(sum(x ^ y)) <- E(x, y).",
            "r(n) <- n = max x ^ y : {E(x, y)}.",
            "r(x) <- F(x).  r(x ^ 2) <- r(x).",
            "r(x / y) <- G(x, y).",
            "r(x) <- G(x, y), x / y < 0.",
            "r(x / -1) <- G(x, _).",
        )
    ),
    Example(
        "powers and quotients beyond 64 bits are computed only where the tests pass",
        """
        p(x, z) <- E(x, y), z = x ^ y, y < 30.
        q(x) <- E(x, y), !(y < 30, x ^ y > 3).
        s(n) <- n = sum x ^ y : {E(x, y), y < 30}.
        r(x) <- F(x).
        r(x ^ 2) <- r(x), x < 100000.
        d(z) <- G(x, y), y != -1, z = x / y.
        w(x + x, -y, abs(x), x * 3) <- G(x, y).
        h(x + 1, x * x * x, -y, abs(y), y - 1) <- H(x, y).
        """,
        {
            "p": {(-2, -8), (3, 9)},
            "q": {(-2,), (10,)},
            "s": {(1,)},
            "r": {(2,), (4,), (16,), (256,), (65536,), (1 << 32,)},
            "d": {(LEAST // 2,)},
            "w": {(0, 1, LEAST, LEAST), (0, -2, LEAST, LEAST)},
            "h": {(1 << 31, 4611686024869838847, 1 << 31, 1 << 31, -(1 << 31) - 1)},
        },
        WIDE,
    ),
    Example(
        "a pattern that is none neither matches nor not-matches",
        """
        a(x) <- S(x), match("[", x).
        b(x) <- S(x), !match("[", x).
        c(x) <- S(x), !match("[a-c]", x).
        """,
        {"a": set(), "b": set(), "c": {("x",)}},
        {"S": (("symbol",), [("a",), ("x",)])},
    ),
    Example(
        "a brace that is no repetition makes a pattern none",
        r"""
        a(x) <- S(x), match("fo{x}b.*", x).
        b(x) <- S(x), !match("fo{x}b.*", x).
        c(x) <- S(x), !match("{", x).
        d(x) <- S(x), match("fo\\{x}b{1}z{0,2}[{]{,1}", x).
        e(x) <- S(x), !match("[{}]{1,}", x).
        """,
        {
            "a": set(),
            "b": set(),
            "c": set(),
            "d": {("fo{x}bz",), ("fo{x}bzz{",)},
            "e": {("fo{x}bz",), ("fo{x}bzz{",), ("a",)},
        },
        {"S": (("symbol",), [("a",), ("fo{x}bz",), ("fo{x}bzz{",), ("{",)])},
    ),
    Example(
        "an invalid pattern in a column, below negations and as a value",
        """
        a(p, x) <- P(p), S(x), match(p, x).
        b(p, x) <- P(p), S(x), !match(p, x).
        c(x) <- S(x), !(P(p), match(p, x)).
        d(x) <- S(x), !(P(p), p != "[", match(p, x)).
        e(x) <- S(x), !(S(y), y != x, !match("[", y)).
        f(x, y) <- S(x), y = match("[", x).
        g(p, x) <- P(p), S(x), match(p, x) = false.
        h(p, x) <- P(p), S(x), !(match(p, x) = true).
        i(p, x) <- P(p), S(x), (match(p, x) lor true) = true.
        j(p) <- P(p), !(S(x), match(p, x) != true).
        k(p) <- P(p), !(S(x), x = "b", match(p, x) != true).
        l(p, x) <- P(p), S(x), !(match(p, x) ; x = "a").
        m(match(p, x)) <- P(p), S(x).
        n(p, c) <- P(p), c = count : { S(x), !match(p, x) }.
        o(x) <- S(x), P(p), !!match(p, x).
        q(x) <- S(x), !contains("[", x), !starts_with(x, "[").
        """,
        {
            "a": {("a|x", "a"), ("a|x", "x")},
            "b": set(),
            "c": set(),
            "d": set(),
            "e": set(),
            "f": set(),
            "g": set(),
            "h": set(),
            "i": {("a|x", "a"), ("a|x", "x")},
            "j": {("a|x",)},
            "k": {("a|x",), ("[",)},
            "l": set(),
            "m": {(True,)},
            "n": {("a|x", 0), ("[", 0)},
            "o": {("a",), ("x",)},
            "q": {("a",), ("x",)},
        },
        {"S": (("symbol",), [("a",), ("x",)]), "P": (("symbol",), [("[",), ("a|x",)])},
    ),
    Example(
        "timestamps compare by time",
        """
        a(x) <- T(x), x < @1970-01-02T12:00:00.
        b(max(x)) <- T(x).
        c(count()) <- T(x), T(y), x < y.
        """,
        {"a": {(Ts(0),), (Ts(DAY),)}, "b": {(Ts(2 * DAY),)}, "c": {(3,)}},
        {"T": (("timestamp",), [(Ts(0),), (Ts(DAY),), (Ts(2 * DAY),)])},
    ),
    Example(
        "parts of times, and their first moments",
        """
        a(hour(t), minute(t), second(t), weekday(t)) <- T(t).
        b(date_trunc("hour", t), date_trunc("week", t), date_trunc("quarter", t)) <- T(t).
        c(weekday(d), date_trunc("week", d), date_trunc("year", d)) <- D(d).
        d(format_time(t, "%d.%m.%Y %H:%M")) <- T(t).  e(format_time(d, "%Y/%m")) <- D(d).
        f(parse_time(s, "%d.%m.%Y %H:%M")) <- d(s).
        g(parse_time(s)) <- s in {"2026-11-20T08:30", "2026-11-20"}.
        """,
        {
            "a": {(23, 59, 59, 2), (1, 0, 0, 5)},
            "b": {
                (Ts(-3600 * 10**9), Ts(-3 * DAY), Ts(-92 * DAY)),
                (Ts(30 * DAY + DAY // 24), Ts(25 * DAY), Ts(0)),
            },
            "c": {(3, Ts(-3 * DAY), Ts(0)), (2, Ts(-3 * DAY), Ts(-365 * DAY))},
            "d": {("31.12.1969 23:59",), ("31.01.1970 01:00",)},
            "e": {("1970/01",), ("1969/12",)},
            "f": {(Ts(-60 * 10**9),), (Ts(30 * DAY + DAY // 24),)},
            "g": {(Ts(1795132800_000_000_000 + 30_600 * 10**9),), (Ts(1795132800_000_000_000),)},
        },
        {
            "T": (("timestamp",), [(Ts(-500_000_000),), (Ts(30 * DAY + DAY // 24),)]),
            "D": (("date",), [(Ts(0),), (Ts(-DAY),)]),
        },
    ),
    Example(
        "choices, rounding, texts",
        """
        a(x, if(x > 0, 10 / x, 0)) <- N(x).
        b(x, case(x < 0, "below", x = 0, "zero", (x > 5 ; x = 2), "some", "few")) <- N(x).
        c(round(y), round(y, 1), round(y * 100.0, -1)) <- y in {2.5, -0.25, 1e300}.
        d(trim(s), trim(s, " -"), replace(s, "-", "+"), position("-", s)) <- s in {" a-b- "}.
        e(regex_extract(s, "[0-9]+"), regex_extract(s, "(.)-(.)", 2)) <- s in {"a-b7", "x"}.
        f(format("{}: {:.2f} {{{:>3}}}", x, 2.5, "a")) <- N(x), x > 2.
        g(sum(if(x > 0, x, 0)), if(count() > 3, "many", "few")) <- N(x).
        h(x) <- N(x), if(!(x < 0, x < -5), true, false).
        """,
        {
            "a": {(-7, 0), (-1, 0), (0, 0), (2, 5), (7, 1)},
            "b": {(-7, "below"), (-1, "below"), (0, "zero"), (2, "some"), (7, "some")},
            "c": {(3.0, 2.5, 250.0), (0.0, -0.3, -30.0), (1e300, 1e300, 1e302)},
            "d": {("a-b-", "a-b", " a+b+ ", 2)},
            "e": {("7", "b"), ("", "")},
            "f": {("7: 2.50 {  a}",)},
            "g": {(9, "many")},
            "h": {(-1,), (0,), (2,), (7,)},
        },
        NUMBERS,
    ),
    Example(
        "durations: literals and arithmetic",
        """
        a(t + 3h, t - 1d12h, -(1s)) <- T(t).
        b(u - t, (u - t) / 2, (u - t) / 12h, 2 * (u - t), (u - t) % 7h) <- T(t), T(u), t < u.
        c(t, u) <- T(t), T(u), t <= u <= t + 24h.
        d(t) <- T(t + 1d).
        e(d) <- T(t), t - d = @1970-01-01.
        f(sum(u - t), max(u - t)) <- T(t), T(u).
        g(x, x - 31d, x - y) <- D(x), D(y), x - y > 0s.
        h(x) <- D(x), x + 2w in {@1970-01-15}.
        """,
        {
            "a": {
                (Ts(DAY // 8), Ts(-DAY * 3 // 2), Dur(-(10**9))),
                (Ts(DAY + DAY // 8), Ts(-DAY // 2), Dur(-(10**9))),
            },
            "b": {(Dur(DAY), Dur(DAY // 2), 2.0, Dur(2 * DAY), Dur(DAY // 8))},
            "c": {(Ts(0), Ts(0)), (Ts(0), Ts(DAY)), (Ts(DAY), Ts(DAY))},
            "d": {(Ts(0),), (Ts(-DAY),)},
            "e": {(Dur(0),), (Dur(DAY),)},
            "f": {(Dur(0), Dur(DAY))},
            "g": {(Ts(31 * DAY), Ts(0), Dur(31 * DAY))},
            "h": {(Ts(0),)},
        },
        {
            "T": (("timestamp",), [(Ts(0),), (Ts(DAY),)]),
            "D": (("date",), [(Ts(0),), (Ts(31 * DAY),)]),
        },
    ),
    Example(
        "floats: an int literal stands for one, -0.0 is 0.0",
        "a(x) <- F(x), x > 1.  b(x * 2) <- F(x).  c(sum(x)) <- F(x).  d(count()) <- F(0).",
        {"a": {(1.5,)}, "b": {(0.0,), (3.0,), (-1.0,)}, "c": {(1.0,)}, "d": {(1,)}},
        {"F": (("float",), [(-0.0,), (1.5,), (-0.5,)])},
    ),
    Example(
        "bools",
        """
        a(x) <- B(x, true).
        b(x, y) <- B(x, y), y != false.
        c(max(y)) <- B(_, y).
        d(x, lnot y) <- B(x, y).
        """,
        {"a": {(1,)}, "b": {(1, True)}, "c": {(True,)}, "d": {(1, False), (2, True)}},
        {"B": (("int", "bool"), [(1, True), (2, False)])},
    ),
    Example(
        "declarations and types of Soufflé's",
        """
        .type Id = number
        .type Name <: symbol
        .decl person(id: Id, name: Name)
        .decl height(id: Id, metres: float)
        .decl tall(name: Name)
        person(1, "ada"). person(2, "bob").
        height(1, 2). height(2, 1.5).
        tall(as(n, Name)) :- person(i, n), height(i, h), h >= 1.75.
        """,
        {
            "person": {(1, "ada"), (2, "bob")},
            "height": {(1, 2.0), (2, 1.5)},
            "tall": {("ada",)},
        },
    ),
]
