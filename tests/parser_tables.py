"""Makes the parser's tables, gdatalog/parser/tables.py, of its grammar.

    python tests/parser_tables.py            says whether they are those of the grammar
    python tests/parser_tables.py --write    writes them

Lark reads the grammar and finds the LALR states. They are numbered here in the order in which they
are met from the first one on, for Lark's own numbers differ from run to run.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections import defaultdict
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "gdatalog" / "parser"
TABLES = FOLDER / "tables.py"
GRAMMAR = FOLDER / "grammar.lark"
HEAD = '''"""The LALR tables of grammar.lark, which `tests/parser_tables.py --write` makes."""

END = "$END"  # the symbol after the last token
ACCEPTED = {accepted}  # the state after a whole statement
# For each rule: its symbol, the number of its parts, the function of builder.py that takes them
# ("" for none), and the places of parts that are lists, whose items are spliced in.
# fmt: off
RULES: tuple[tuple[str, int, str, tuple[int, ...]], ...] = (
{rules}
)
# Sets of tokens, before which rules are reduced.
AHEAD = (
{ahead}
)
# Transitions that several states share: the state that each token or symbol leads to.
SHARED: tuple[dict[str, int], ...] = (
{shared}
)
# For each state: its members of SHARED, its own transitions, and the rule to reduce (-1: none)
# before the tokens of a member of AHEAD.
STATES: tuple[tuple[tuple[int, ...], dict[str, int], int, int], ...] = (
{states}
)
'''


def lark_of(builder: object = None) -> Any:
    """Lark's own parser of the grammar, which takes lists of tokens."""
    from lark import Lark
    from lark.lexer import Lexer

    class Tokens(Lexer):
        def __init__(self, _: Any) -> None:
            pass

        def lex(self, tokens: Any) -> Any:  # type: ignore[override]
            return tokens

    text = GRAMMAR.read_text(encoding="utf-8")
    return Lark(text, parser="lalr", lexer=Tokens, transformer=builder)  # type: ignore[arg-type]


def made() -> str:
    """The text of the tables."""
    lark = lark_of()
    table = lark.parser.parser._parse_table
    numbers = {rule: at for at, rule in enumerate(lark.rules)}
    order = [table.start_states["start"]]
    for state in order:
        for _, (what, target) in sorted(table.states[state].items()):
            if str(what) == "Shift" and target not in order:
                order.append(target)
    place = {state: at for at, state in enumerate(order)}
    rows: list[dict[str, int]] = [
        {
            _name(symbol): place[target] if str(what) == "Shift" else ~numbers[target]
            for symbol, (what, target) in sorted(table.states[state].items())
        }
        for state in order
    ]
    ahead, shared, states = packed(rows)
    return HEAD.format(
        accepted=place[table.end_states["start"]],
        rules=_wrapped(" ".join(f"{_rule(rule)}," for rule in lark.rules)),
        ahead="\n".join(_wrapped(f'"{text}",') for text in ahead),
        shared="\n".join(_wrapped(f"{_dict(each)},") for each in shared),
        states=_wrapped(
            " ".join(f"({_tuple(s)}, {_dict(own)}, {r}, {a})," for s, own, r, a in states)
        ),
    )


State = tuple[tuple[int, ...], dict[str, int], int, int]


def packed(rows: list[dict[str, int]]) -> tuple[list[str], list[dict[str, int]], list[State]]:
    """The states, with what several of them have in common taken out."""
    where: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    for number, row in enumerate(rows):
        for symbol, target in row.items():
            if target >= 0:
                where[symbol, target].append(number)
    groups: defaultdict[tuple[int, ...], dict[str, int]] = defaultdict(dict)
    for (symbol, target), numbers in where.items():
        groups[tuple(numbers)][symbol] = target
    common = {at: each for at, each in groups.items() if len(at) > 1 and len(each) > 1}
    ahead: dict[str, int] = {}
    states = []
    for number, row in enumerate(rows):
        held = [at for at, numbers in enumerate(common) if number in numbers]
        taken = {symbol for numbers, each in common.items() if number in numbers for symbol in each}
        own = {s: target for s, target in row.items() if target >= 0 and s not in taken}
        tokens = " ".join(symbol for symbol, target in row.items() if target < 0)
        (rule,) = {~target for target in row.values() if target < 0} or {-1}
        at = ahead.setdefault(tokens, len(ahead)) if tokens else 0
        states.append((tuple(held), own, rule, at))
    return list(ahead), list(common.values()), states


def _name(symbol: Any) -> str:
    """A symbol's name; Lark names what repeats after the rule that it is in."""
    return re.sub(r"__\w+_(\d+)$", r"_\1", str(symbol))


def _tuple(numbers: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, numbers))}{',' * (len(numbers) == 1)})"


def _dict(shifts: dict[str, int]) -> str:
    return "{" + ", ".join(f'"{symbol}": {state}' for symbol, state in shifts.items()) + "}"


def _rule(rule: Any) -> str:
    symbol = _name(rule.origin.name)
    parts = [_name(part.name) for part in rule.expansion]
    spliced = tuple(at for at, part in enumerate(parts) if part.startswith("_"))
    method = rule.alias or symbol
    if method.startswith("_"):
        method = ""
    elif rule.options.expand1 and not rule.alias:
        assert len(parts) == 1, "such a rule stands for its one part"
        method = "itself"
    return f'("{symbol}", {len(parts)}, "{method}", {_tuple(spliced)})'


def _wrapped(text: str) -> str:
    return textwrap.fill(
        text, 100, initial_indent="    ", subsequent_indent="    ",
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def main() -> None:
    text = made()
    if "--write" in sys.argv[1:]:
        TABLES.write_text(text, encoding="utf-8")
    elif TABLES.read_text(encoding="utf-8") != text:
        sys.exit("the tables are not those of the grammar: python tests/parser_tables.py --write")


if __name__ == "__main__":
    main()
