"""Commands on plans: `.explain` and `.profile`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial

from gdatalog.engine.facts.files import writable
from gdatalog.errors import Error, UsageError
from gdatalog.report import Shown
from gdatalog.shell.conversation import Conversation
from gdatalog.shell.messages import say
from gdatalog.shell.registry import COMMANDS, command
from gdatalog.shell.typed import OF_PART, WITH_PASSES


@command(
    "plans", "explain", "QUERY [> FILE]", "show how a query or rule would be evaluated",
    ".explain ?- path(1, y).", ".explain --of * ?- path(1, y).",
    ".explain path(1, y). > plan.html",
    more="Evaluates nothing. A plan of many rules is folded: --of shows the rules of one "
    "relation, stratum (3) or rule (3.2) in full, --of * all. --passes shows the rules after each "
    "pass of the planner. The ending of FILE chooses the format: .html, .json, .mmd (mermaid) or "
    ".txt.",
    raw=True,
)  # fmt: skip
def _explain(repl: Conversation, words: list[str]) -> None:
    rest = WITH_PASSES.sub(r"\1", words[0], count=1) if WITH_PASSES.match(words[0]) else words[0]
    plan_of = partial(repl.db.explain, passes=rest != words[0])
    _show_plan(repl, "explain", rest, plan_of)


@command(
    "plans", "profile", "QUERY [> FILE]", "run a query; show rows and time of each step",
    ".profile ?- path(1, y).", ".profile --of * ?- path(1, y).",
    ".profile path(1, y). > profile.html",
    more="Relations are evaluated again, even if their rows are known. --of shows a "
    "part in full, as in .explain. The ending of FILE chooses the format: .html, .json, .mmd "
    "(mermaid) or .txt.",
    raw=True,
)  # fmt: skip
def _profile(repl: Conversation, words: list[str]) -> None:
    _show_plan(repl, "profile", words[0], repl.db.profile)


# The file's ending tells `> FILE` from a comparison.
_NAME = r"""(["']?)([^\s"']+|(?<=["'])[^"']+)\.(html|json|mmd|txt)\2"""
_INTO = re.compile(rf"(.*?)\s*>\s*{_NAME}\s*", re.DOTALL)


def _show_plan(
    repl: Conversation, name: str, rest: str, plan_of: Callable[[str, Mapping[str, object]], Shown]
) -> None:
    """Shows the plan of a query, or the part after `--of`, or writes it to the file after `>`."""
    part = OF_PART.match(rest)
    rest = rest[part.end() :] if part else rest
    found = _INTO.fullmatch(rest)
    text = found[1] if found else rest
    if found:
        repl.check_trusted(f".{name} into a file")
    if not text:
        raise UsageError(f".{name} needs a query or a rule", hint=COMMANDS[name].example)

    def show(plan: Shown) -> None:
        plan = plan.of(part[1]) if part else plan
        if found:
            path = f"{found[3]}.{found[4]}"
            plan.save(writable(path, repl.db.workspace.files))
            say(f"-> {path}")
        else:
            repl.output.plan(plan)

    try:
        with repl.line(name):
            plan = plan_of(text, repl.params)
    except (Error, KeyboardInterrupt) as error:
        if name == "profile" and getattr(error, "profile", None) is not None:
            show(vars(error)["profile"])
        raise
    show(plan)
