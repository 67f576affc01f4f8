"""Reads plain command lines: those that start a prompt, so that it appears before the engine is
imported, and those that run programs, so that Click is not imported.

`arguments.py` reads all other command lines, and reports their errors.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from gdatalog.errors import UsageError, meant
from gdatalog.options import FORMS, STRATEGIES, parse_seconds, parse_size, parse_threads
from gdatalog.user_settings import parse_settings

FORMATS = ("box", "csv", "tsv", "json", "jsonl", "markdown")
_FLAGS = ("--timing", "--bail", "--no-warnings")
SETTING_OF = {
    "-j": "threads", "--timeout": "timeout", "--memory-limit": "memory_limit",
    "--temp-limit": "temp_limit", "--strategy": "strategy",
}  # fmt: skip
_NUMBER = re.compile(r"[0-9]{1,18}")
_PARAMETER = re.compile(r"([a-zA-Z_]\w*)=([+-]?[0-9]{1,18}|[a-zA-Z]\w*)")


def plain_options(args: Sequence[str]) -> Mapping[str, str] | None:
    """The options of a command line that starts a prompt, if all are valid without a closer look;
    otherwise None. Of a repeated option the last one counts.

    >>> plain_options(["--device=cpu", "-j", "2", "-M", "n=3"])
    {'--device': 'cpu', '-j': '2', '-M': 'n=3'}
    >>> plain_options(["--device", "gpu"]), plain_options(["rules.dl"])
    (None, None)
    """
    pairs = _pairs(args)
    if pairs is None:
        return None
    for option, value in pairs:
        if option not in _RIGHT or value.startswith(("-", "=")) or not _RIGHT[option](value):
            return None
    named = [value.partition("=")[0] for option, value in pairs if option == "-M"]
    named += {value.partition("=")[0] for option, value in pairs if option == "--set"}
    named += {SETTING_OF[option] for option, _ in pairs if option in SETTING_OF}
    return dict(pairs) if len({*named}) == len(named) else None  # those given twice are errors


def asks_for_prompt(args: Sequence[str]) -> bool:
    """Whether a command line has only options that a prompt accepts, with valid values or not.

    >>> asks_for_prompt(["--cluster", "local", "-j", "2", "--timing"])
    True
    >>> asks_for_prompt(["--doctor"]), asks_for_prompt(["-c", "p(1)."]), asks_for_prompt(["a.dl"])
    (False, False, False)
    """
    return _pairs(args) is not None


def _pairs(args: Sequence[str]) -> list[tuple[str, str]] | None:
    """Options with their values, without flags; None if a prompt does not accept one of them."""
    found: list[tuple[str, str]] = []
    left = list(args)
    while left:
        option, equals, value = left.pop(0).partition("=")
        if option in _FLAGS and not equals:
            continue
        if option not in (*_RIGHT, "--cluster") or not (equals or left):
            return None
        if not equals:
            value = left.pop(0)
        elif not option.startswith("--"):
            value = f"={value}"  # `-j=2` is invalid: no option accepts such a value
        found.append((option, value))
    return found


# The names of the options of `gdatalog`, as `arguments.py` declares them.
_SINGLE = {
    "-F": "facts", "-D": "out", "--device": "device", "--memory-limit": "memory_limit",
    "--temp-directory": "temp_directory", "--temp-limit": "temp_limit", "--timeout": "timeout",
    "-j": "threads", "--strategy": "strategy", "--format": "form", "--limit": "limit",
    "--of": "of", "--cluster": "cluster",
}  # fmt: skip
_SEVERAL = {"-c": "commands", "-M": "params", "-I": "include", "--set": "settings"}
_SWITCHES = {
    name: name.removeprefix("--").replace("-", "_")
    for name in (
        *_FLAGS, "--untrusted", "--explain", "--passes", "--profile", "--doctor", "--clear-cache",
    )
}  # fmt: skip


def plain_command(args: Sequence[str]) -> dict[str, Any] | None:
    """All options of a command line by name, if Click would certainly read them so; otherwise
    None, also for help.

    >>> found = plain_command(["a.dl", "-F", "facts", "--limit=3", "-c", "?- p(x)."])
    >>> found["files"], found["facts"], found["limit"], found["commands"], found["explain"]
    (('a.dl',), 'facts', 3, ('?- p(x).',), False)
    >>> plain_command(["--help"]), plain_command(["--limit", "three"]), plain_command(["-Ffacts"])
    (None, None, None)
    """
    single: dict[str, Any] = dict.fromkeys(_SINGLE.values())
    single |= {"facts": ".", "out": ".", "device": "auto", "strategy": "auto"}
    several: dict[str, list[str]] = {name: [] for name in ("files", *_SEVERAL.values())}
    switches = dict.fromkeys(_SWITCHES.values(), False)
    left = list(args)[::-1]
    while left:
        arg = left.pop()
        option, equals, value = arg.partition("=") if arg.startswith("--") else (arg, "", "")
        if option in _SWITCHES and not equals:
            switches[_SWITCHES[option]] = True
            continue
        if option not in _SINGLE and option not in _SEVERAL:
            if arg.startswith("-") and arg != "-":
                return None
            several["files"].append(arg)
            continue
        if not equals:
            if not left:
                return None
            value = left.pop()
        if option in _SEVERAL:
            several[_SEVERAL[option]].append(value)
        else:
            single[_SINGLE[option]] = value
    if single["strategy"] not in STRATEGIES or single["form"] not in (None, *FORMATS, *FORMS):
        return None
    if single["limit"] is not None:
        if not _NUMBER.fullmatch(single["limit"]):
            return None
        single["limit"] = int(single["limit"])
    return {**single, **switches, **{name: tuple(found) for name, found in several.items()}}


_OWN_OPTIONS = {"count": {"--pattern"}, "frequent": {"--support", "--edges", "--measure"}}


def asks_for_patterns(args: Sequence[str]) -> bool:
    """Whether a command line begins with a command about patterns. A first word that is also the
    name of an existing file is that file, unless an option of the command follows.

    >>> asks_for_patterns(["count", "graph.csv"]), asks_for_patterns(["count.dl", "--pattern"])
    (True, False)
    """
    if not args or args[0] not in _OWN_OPTIONS:
        return False
    options = _OWN_OPTIONS[args[0]] | {"--help", "-h"}
    given = any(arg.partition("=")[0] in options for arg in args[1:])
    return given or not os.path.exists(args[0])


def _parsed_by(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def is_right(text: str) -> bool:
        try:
            parse(text)
        except UsageError:
            return False
        return True

    return is_right


_RIGHT: Mapping[str, Callable[[str], object]] = {
    "-F": bool,
    "-D": bool,
    "-I": bool,
    "-M": _PARAMETER.fullmatch,
    "-j": _parsed_by(parse_threads),
    "--device": ("auto", "cpu").__contains__,  # a GPU may be missing or unusable
    "--memory-limit": _parsed_by(parse_size),
    "--temp-directory": os.path.isdir,
    "--temp-limit": _parsed_by(parse_size),
    "--timeout": _parsed_by(parse_seconds),
    "--strategy": STRATEGIES.__contains__,
    "--set": _parsed_by(lambda text: parse_settings([text])),
    "--format": FORMATS.__contains__,
    "--limit": _NUMBER.fullmatch,
}


def chosen(given: str, among: Iterable[str], what: str) -> str:
    """Returns `given` if it is one of the names; otherwise raises with a suggestion."""
    names = list(among)
    if given in names:
        return given
    close = meant(given, names)
    hint = f"did you mean {close}?" if close else f"one of {', '.join(names)}"
    raise UsageError(f"there is no {what} {given!r}", hint=hint)
