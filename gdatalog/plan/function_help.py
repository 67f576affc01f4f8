"""What each function and aggregate does, with an example: for the prompt and docs/functions.md.

Examples of aggregates and of functions that depend on an order are terms of a head over
`sale(city, month, amount)`.
"""

from __future__ import annotations

from typing import NamedTuple


class Help(NamedTuple):
    name: str
    section: str
    text: str
    example: str


OF_HEADS = ("Aggregates", "Windows")  # sections


def _section(name: str, entries: dict[str, tuple[str, str]]) -> tuple[Help, ...]:
    return tuple([Help(function, name, *entry) for function, entry in entries.items()])


HELP: tuple[Help, ...] = (
    *_section("Numbers and durations", {
        "+": ("a sum; of texts, one after the other; a time and a duration", "2 + 3"),
        "-": ("a difference; of two times, a duration; with one operand, the negative", "2 - 3"),
        "*": ("a product; a duration times an int", "90s * 2"),
        "/": ("a quotient, truncated for ints; of two durations, a float", "36h / 1d"),
        "%": ("a remainder, with the sign of the first", "-7 % 3"),
        "^": ("a power; also written `**`", "2 ^ 10"),
        "abs": ("without its sign", "abs(-3)"),
        "min": ("the least of two or more values", "min(3, 1, 2)"),
        "max": ("the greatest of two or more values", "max(3, 1, 2)"),
        "round": ("rounds, halves away from zero; to a constant number of digits",
                  "round(2.345, 2)"),
        "floor": ("the greatest whole number below", "floor(-2.5)"),
        "ceil": ("the least whole number above", "ceil(-2.5)"),
        "sqrt": ("a square root", "sqrt(2.25)"),
        "exp": ("a power of e", "exp(0.0)"),
        "log": ("a natural logarithm", "log(1.0)"),
    }),
    *_section("Bits and logic", {
        "band": ("bits that both ints have", "6 band 3"),
        "bor": ("bits that either int has", "6 bor 3"),
        "bxor": ("bits that only one int has", "6 bxor 3"),
        "bnot": ("the other bits", "bnot 0"),
        "bshl": ("bits, shifted to the left", "1 bshl 4"),
        "bshr": ("bits, shifted to the right; the sign stays", "-8 bshr 1"),
        "bshru": ("bits, shifted to the right", "-1 bshru 60"),
        "land": ("both; of ints, 0 is false", "true land false"),
        "lor": ("one or both", "true lor false"),
        "lxor": ("only one", "true lxor false"),
        "lnot": ("not", "lnot true"),
    }),
    *_section("Choices", {
        "if": ("the second where the first holds, else the third; the other is not computed; "
               "conditions are comparisons with `!`, and with `,` and `;` in parentheses",
               'if((2 < 3, !(1 > 2)), "yes", "no")'),
        "case": ("the value after the first condition that holds, else the last",
                 'case(7 < 3, "few", 7 < 10, "some", "many")'),
    }),
    *_section("Nulls", {
        "coalesce": ("the first value that is not null", "coalesce(null, 3)"),
    }),
    *_section("Conversions", {
        "to_int": ("an int: truncates floats, reads texts, counts days or nanoseconds of times",
                   "to_int(-2.75)"),
        "to_float": ("a float", 'to_float("1e3")'),
        "to_decimal": ("a decimal with a constant number of digits after the point, rounded",
                       'to_decimal("2.345", 2)'),
        "to_number": ("like `to_int`", 'to_number("-12")'),
        "to_string": ("a text that reads back", "to_string(2.50)"),
        "ord": ("an int in the order of the values", "ord(3)"),
    }),
    *_section("Texts", {
        "cat": ("texts, one after the other", 'cat("a", "b", "c")'),
        "strlen": ("the number of characters", 'strlen("né")'),
        "substr": ("a part: from a place, counted from 0, so many characters",
                   'substr("abcdef", 1, 3)'),
        "position": ("the first place of the first text in the second, from 0; -1 if none",
                     'position("cd", "abcdef")'),
        "contains": ("whether the second text contains the first", 'contains("cd", "abcdef")'),
        "starts_with": ("whether the first text starts with the second",
                        'starts_with("abc", "ab")'),
        "match": ("whether a regular expression matches the whole text",
                  'match("[a-z]+[0-9]", "ab1")'),
        "regex_extract": ("the first match of a regular expression, or one of its groups; "
                          "\"\" if there is none", 'regex_extract("id=42;", "id=([0-9]+)", 1)'),
        "replace": ("with another text in place of each part", 'replace("a-b-c", "-", "+")'),
        "trim": ("without spaces, or the characters of a second text, at its ends",
                 'trim("  a b ")'),
        "upper": ("in capitals", 'upper("né")'),
        "lower": ("in small letters", 'lower("NÉ")'),
        "split_part": ("a part between separators, counted from 1; \"\" if there is none",
                       'split_part("a-b-c", "-", 2)'),
        "format": ("a constant template with values at `{}`, or as Python's formats say",
                   'format("{} of {:.1f} kg", 3, 2.5)'),
    }),
    *_section("Times", {
        "year": ("the year", "year(@2026-11-20)"),
        "month": ("the month, from 1", "month(@2026-11-20)"),
        "day": ("the day of the month", "day(@2026-11-20)"),
        "weekday": ("the day of the week, from 0, Monday", "weekday(@2026-11-20)"),
        "hour": ("the hour", "hour(@2026-11-20T08:30:15)"),
        "minute": ("the minute", "minute(@2026-11-20T08:30:15)"),
        "second": ("the second", "second(@2026-11-20T08:30:15)"),
        "date_trunc": ('the start of its "second", "minute", "hour", "day", "week" (Monday), '
                       '"month", "quarter" or "year"', 'date_trunc("week", @2026-11-20T08:30)'),
        "seconds_between": ("from the first to the second time, a float",
                            "seconds_between(@2026-11-20, @2026-11-21)"),
        "parse_time": ("a timestamp, in ISO 8601 or a format of `strptime`",
                       'parse_time("20.11.2026 8:30", "%d.%m.%Y %H:%M")'),
        "format_time": ("a text in a format of `strftime`",
                        'format_time(@2026-11-20, "%d %b %Y")'),
    }),
    *_section("Aggregates", {
        "count": ("the number of matches", "count()"),
        "sum": ("a sum; 0 of nothing", "sum(amount)"),
        "mean": ("a mean, a float", "mean(amount)"),
        "min": ("the least value", "min(amount)"),
        "max": ("the greatest value", "max(amount)"),
        "count_distinct": ("the number of different values", "count_distinct(amount)"),
        "any_value": ("one of the values: the least", "any_value(month)"),
        "median": ("the median, a float; of decimals, times and durations their type",
                   "median(amount)"),
        "quantile": ("the value at a share of the rows, between two values as NumPy's",
                     "quantile(amount, 0.75)"),
        "stddev": ("the standard deviation of a sample; null of one row",
                   "stddev(amount)"),
        "var": ("the variance of a sample; null of one row", "var(amount)"),
        "corr": ("Pearson's correlation; null of equal values", "corr(month, amount)"),
        "mode": ("the most frequent value; of equally frequent ones the least", "mode(amount)"),
        "arg_max": ("the value where another is greatest", "arg_max(month, amount)"),
        "arg_min": ("the value where another is least", "arg_min(month, amount)"),
        "top": ("the first values in an order, a row for each", "top(2, month by amount desc)"),
        "string_agg": ("texts, one after the other",
                       'string_agg(to_string(month), "+" order by month)'),
    }),
    *_section("Windows", {
        "row_number": ("the number of a row, from 1", "row_number(order by month)"),
        "rank": ("the number of the first row with the same order", "rank(order by amount)"),
        "dense_rank": ("the number of different orders up to the row's",
                       "dense_rank(order by amount)"),
        "lag": ("the value of the row before; else the second argument, or a null",
                "lag(amount, 0 order by month)"),
        "lead": ("the value of the row after; else the second argument, or a null",
                 "lead(amount, 0 order by month)"),
        "running_sum": ("the sum up to the row", "running_sum(amount order by month)"),
    }),
)  # fmt: skip


def help_of(name: str) -> str:
    """What a function does.

    >>> help_of("year")
    'the year'
    """
    return next(each.text for each in HELP if each.name == name and each.section not in OF_HEADS)
