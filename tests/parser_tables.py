"""Makes the parser's tables, gdatalog/parser/tables.py, of its grammar.

    python tests/parser_tables.py            says whether they are those of the grammar
    python tests/parser_tables.py --write    writes them

Lark reads the grammar and finds the LALR states. They are numbered here in the order in which they
are met from the first one on, for Lark's own numbers differ from run to run.
"""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "gdatalog" / "parser"
TABLES = FOLDER / "tables.py"
GRAMMAR = FOLDER / "grammar.lark"
HEAD = '''"""The LALR tables of grammar.lark, which `tests/parser_tables.py --write` makes.

The length is that of the tables: a state in each dict of `ACTIONS`.
"""

END = "$END"  # what stands behind the last token
ACCEPTED = {accepted}  # the state in which a statement has been read
# Of each rule: the symbol that it makes, how many parts it has, the method of Builder that takes
# them ("": they stay as they are), and which of them are lists whose items are parts.
# fmt: off
RULES: tuple[tuple[str, int, str, tuple[int, ...]], ...] = (
{rules}
)
# Of each state: the state that a token or a symbol leads to, or ~n: rule n has been read.
ACTIONS: tuple[dict[str, int], ...] = (
{actions}
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
    actions = []
    for state in order:
        entries = [
            f'"{symbol}": {place[target] if str(what) == "Shift" else ~numbers[target]}'
            for symbol, (what, target) in sorted(table.states[state].items())
        ]
        actions.append(_wrapped("{" + ", ".join(entries) + "},"))
    rules = [_rule(rule) for rule in lark.rules]
    accepted = place[table.end_states["start"]]
    return HEAD.format(
        accepted=accepted,
        rules=_wrapped(" ".join(f"{rule}," for rule in rules)),
        actions="\n".join(actions),
    )


def _rule(rule: Any) -> str:
    symbol = str(rule.origin.name)
    parts = [str(part.name) for part in rule.expansion]
    spliced = tuple(at for at, part in enumerate(parts) if part.startswith("_"))
    method = rule.alias or symbol
    if method.startswith("_"):
        method = ""
    elif rule.options.expand1 and not rule.alias:
        assert len(parts) == 1, "such a rule stands for its one part"
        method = "itself"
    text = ", ".join(map(str, spliced)) + ("," if len(spliced) == 1 else "")
    return f'("{symbol}", {len(parts)}, "{method}", ({text}))'


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
