"""Numbers as reports show them."""

from __future__ import annotations

STAYS = "\N{NO-BREAK SPACE}"
FAR = 10.0  # factor from which an estimate counts as wrong


def about(number: float) -> str:
    """An estimate, rounded to two digits.

    >>> about(2.84), about(1234.5), about(3e15), about(4e-6)
    ('~2.8', '~1,200', '~3e+15', '~0')
    """
    if number < 0.01:
        return "~0"
    many = float(f"{number:.2g}")
    return f"~{many:.2g}" if many < 10 or many >= 1e12 else f"~{many:,.0f}"


def many(count: float, what: str) -> str:
    """
    >>> many(1, "round"), many(2000, "row"), many(3, "entry"), many(2, "stratum")
    ('1 round', '2,000 rows', '3 entries', '2 strata')
    """
    if count == 1:
        return f"1 {what}"
    several = {"y": f"{what[:-1]}ies", "um": f"{what[:-2]}a"}
    ends = (plural for ending, plural in several.items() if what.endswith(ending))
    return f"{count:,.0f} {next(ends, f'{what}s')}"


def took(seconds: float) -> str:
    """
    >>> took(0.00012), took(0.5), took(75.25)
    ('0.12 ms', '500 ms', '75.2 s')
    """
    if seconds < 1.0:
        thousandths = seconds * 1000
        return f"{thousandths:.2g} ms" if thousandths < 10 else f"{thousandths:.0f} ms"
    return f"{seconds:.1f} s" if seconds >= 10 else f"{seconds:.2f} s"


def per_second(rows: float, seconds: float) -> str:
    """
    >>> per_second(3_000_000, 2.0), per_second(10, 2.0)
    ('1.5 million rows/s', '5 rows/s')
    """
    rate = rows / seconds
    for scale, name in ((1e9, "billion "), (1e6, "million ")):
        if rate >= scale:
            return f"{rate / scale:.2g} {name}rows/s"
    return f"{float(f'{rate:.2g}'):,.0f} rows/s"


def wrong_by(estimate: float, actual: float) -> str | None:
    """By what factor an estimate was wrong, if by ten or more.

    >>> wrong_by(3.0, 400), wrong_by(5000.0, 20), wrong_by(3.0, 8), wrong_by(0.01, 0)
    ('▲ 130x', '▼ 250x', None, None)
    """
    expected, came = max(1.0, estimate), max(1.0, float(actual))
    times = max(came / expected, expected / came)
    if times < FAR:
        return None
    shown = float(f"{times:.2g}")
    written = f"{shown:,.0f}" if shown < 1e9 else f"{shown:.2g}"
    return f"{'▲' if came > expected else '▼'} {written}x"


def unbroken(text: str) -> str:
    """Replaces spaces within brackets by no-break spaces.

    >>> unbroken("x in E([x], y) and F(x)").split(" ")
    ['x', 'in', 'E([x], y)', 'and', 'F(x)']
    """
    depth, out = 0, []
    for ch in text:
        depth += (ch in "([{") - (ch in ")]}")
        out.append(STAYS if ch == " " and depth > 0 else ch)
    return "".join(out)
