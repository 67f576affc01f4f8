"""Commands on plans: how a text would be evaluated, and what evaluating it did."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gdatalog.errors import UsageError
from gdatalog.shell.registry import command, example_of

if TYPE_CHECKING:
    from gdatalog.shell.repl import Repl


@command(
    "plans", "explain", "QUERY OR RULE", "how it would be evaluated",
    ".explain ?- path(1, y).",
)  # fmt: skip
def _explain(repl: Repl, rest: str) -> None:
    _needs_text("explain", rest)
    with repl.line("explain"):
        plan = str(repl.db.explain(rest, repl.params))
    repl.output.text(plan)


@command(
    "plans", "profile", "QUERY OR RULE", "evaluate it anew; rows and time of each step",
    ".profile ?- path(1, y).",
)  # fmt: skip
def _profile(repl: Repl, rest: str) -> None:
    _needs_text("profile", rest)
    with repl.line("profile"):
        found = str(repl.db.profile(rest, repl.params))
    repl.output.text(found)


def _needs_text(name: str, rest: str) -> None:
    if not rest:
        raise UsageError(f".{name} needs a query or a rule", hint=example_of(name))
