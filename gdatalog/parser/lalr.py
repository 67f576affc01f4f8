"""The LALR parser: from the tokens of a statement to what the builder makes of them.

Its tables are made of the grammar beforehand (`tests/parser_tables.py`), so that no start waits
for a generator of parsers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gdatalog.parser.builder import Builder
from gdatalog.parser.tables import ACCEPTED, ACTIONS, END, RULES
from gdatalog.parser.tokens import Token


class UnexpectedError(Exception):
    """No statement goes on with the token `at` this index (past the last: none ends there)."""

    def __init__(self, at: int) -> None:
        super().__init__(at)
        self.at = at


# What makes a value of a rule's parts. None: they are no value of their own, but take their places
# among the parts of the rule that they are in.
_MAKERS = [getattr(Builder(), rule[2]) if rule[2] else None for rule in RULES]


def build(tokens: Sequence[Token]) -> Any:
    """What the builder makes of a statement."""
    states = [0]
    values: list[Any] = []
    for at, token in enumerate(tokens):
        kind = token.type
        action = ACTIONS[states[-1]].get(kind)
        while action is not None and action < 0:
            _reduce(~action, states, values)
            action = ACTIONS[states[-1]].get(kind)
        if action is None:
            raise UnexpectedError(at)
        states.append(action)
        values.append(token)
    while states[-1] != ACCEPTED:
        action = ACTIONS[states[-1]].get(END)
        if action is None:
            raise UnexpectedError(len(tokens))
        _reduce(~action, states, values)
    return values[0]


def _reduce(rule: int, states: list[int], values: list[Any]) -> None:
    """Puts one value in the place of the parts of a rule, the last ones."""
    symbol, size, _, spliced = RULES[rule]
    first = len(values) - size
    parts = values[first:]
    del values[first:], states[first + 1 :]
    if spliced:
        # A list that grows at its end, as in `a, b, c`, is not copied.
        flat: list[Any] = parts[0] if spliced[0] == 0 else []
        for place, part in enumerate(parts):
            if place not in spliced:
                flat.append(part)
            elif place or part is not flat:
                flat += part
        parts = flat
    make = _MAKERS[rule]
    values.append(parts if make is None else make(parts))
    states.append(ACTIONS[states[-1]][symbol])
