"""Commands on plans: how a text would be evaluated, and what evaluating it did."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gdatalog.errors import UsageError
from gdatalog.report.shown import Shown
from gdatalog.shell.commands.registry import check_trusted, command, example_of
from gdatalog.shell.editor.typed import OF_PART
from gdatalog.shell.messages import say

if TYPE_CHECKING:
    from gdatalog.shell.repl import Repl


@command(
    "plans", "explain", "QUERY [> FILE]", "how a query or a rule would be evaluated",
    ".explain ?- path(1, y).", ".explain --of * ?- path(1, y).",
    ".explain path(1, y). > plan.html",
    more="Nothing is evaluated. A plan of many rules is folded: --of shows the rules of one "
    "relation, stratum (3) or rule (3.2) in full, --of * all. A file's ending says how it is "
    "drawn: .html, .json, .mmd (mermaid) or .txt.",
)  # fmt: skip
def _explain(repl: Repl, rest: str) -> None:
    text, path, of = _divided(repl, "explain", rest)
    with repl.line("explain"):
        plan = repl.db.explain(text, repl.params)
    _give(repl, plan, path, of)


@command(
    "plans", "profile", "QUERY [> FILE]", "evaluate it anew; rows and time of each step",
    ".profile ?- path(1, y).", ".profile --of * ?- path(1, y).",
    ".profile path(1, y). > profile.html",
    more="Nothing that is known already is used. --of shows a part in full, as .explain does. A "
    "file's ending says how it is drawn: .html, .json, .mmd (mermaid) or .txt.",
)  # fmt: skip
def _profile(repl: Repl, rest: str) -> None:
    text, path, of = _divided(repl, "profile", rest)
    with repl.line("profile"):
        found = repl.db.profile(text, repl.params)
    _give(repl, found, path, of)


# A comparison looks alike, but for the ending.
_NAME = r"""(["']?)([^\s"']+|(?<=["'])[^"']+)\.(html|json|mmd|txt)\2"""
_INTO = re.compile(rf"(.*?)\s*>\s*{_NAME}\s*", re.DOTALL)


def _divided(repl: Repl, name: str, rest: str) -> tuple[str, str | None, str | None]:
    """The query, the file that its plan is to go to, and the part that is asked for."""
    part = OF_PART.match(rest)
    of, rest = (part[1], rest[part.end() :]) if part else (None, rest)
    found = _INTO.fullmatch(rest)
    text, path = (found[1], f"{found[3]}.{found[4]}") if found else (rest, None)
    if path is not None:
        check_trusted(repl, f".{name} into a file")
    if not text:
        raise UsageError(f".{name} needs a query or a rule", hint=example_of(name))
    return text, path, of


def _give(repl: Repl, plan: Shown, path: str | None, of: str | None) -> None:
    plan = plan if of is None else plan.of(of)
    if path is None:
        repl.output.plan(plan)
    else:
        plan.save(repl.db.workspace.policy.writing(path, None))
        say(f"-> {path}")
