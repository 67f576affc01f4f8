"""Checks and parses options: the strategy, threads, time limits and sizes."""

from __future__ import annotations

import re
from typing import get_args

from gdatalog.errors import UsageError, meant
from gdatalog.settings import Strategy

FORMS = ("text", "json", "mermaid", "html")  # formats of plans
MOST_THREADS = 1024
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def strategy_of(given: object) -> Strategy:
    """
    >>> strategy_of("lftj")
    'lftj'
    """
    if given in STRATEGIES:
        return given
    choices = ", ".join(f'"{strategy}"' for strategy in STRATEGIES)
    near = meant(str(given), STRATEGIES)
    hint = f"one of {choices}" if near is None else f'did you mean "{near}"? It is one of {choices}'
    raise UsageError(f"there is no strategy {given!r}", hint=hint)


def parse_threads(text: str | None) -> int | None:
    """Parses a number of threads; None: one per core.

    >>> parse_threads("2"), parse_threads("auto"), parse_threads(None)
    (2, None, None)
    """
    if text is None or text == "auto":
        return None
    return threads_of(int(text) if text.isdecimal() else text)


def threads_of(given: object) -> int:
    """Checks a number of threads; 0 for None: one per core.

    >>> threads_of(None), threads_of(2)
    (0, 2)
    """
    if given is None:
        return 0
    if isinstance(given, int) and not isinstance(given, bool) and 1 <= given <= MOST_THREADS:
        return given
    raise UsageError(
        f"not a number of threads: {given!r}",
        hint=f"from 1 to {MOST_THREADS}; without it there is one for each core",
    )


def seconds_of(given: object) -> float | None:
    """Checks a time limit in seconds; None: no limit.

    >>> seconds_of(None), seconds_of(2)
    (None, 2.0)
    """
    if given is None:
        return None
    if isinstance(given, int | float) and not isinstance(given, bool) and given > 0:
        return float(given)
    raise UsageError(
        f"not a time limit: {given!r}", hint="a positive number of seconds; None for no limit"
    )


def parse_seconds(text: str) -> float | None:
    """
    >>> parse_seconds("2.5"), parse_seconds("off")
    (2.5, None)
    """
    if text == "off":
        return None
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?|\.[0-9]+", text) is None:
        raise UsageError(f"not a time limit: {text!r}", hint="seconds, as in 30 or 0.5; or off")
    return seconds_of(float(text))


def parse_size(text: str | int, what: str = "a memory limit") -> int:
    """Parses a number of bytes. `what` names it in errors.

    >>> parse_size("8GiB"), parse_size("512 MB"), parse_size(1000)
    (8589934592, 512000000, 1000)
    """
    if isinstance(text, int):
        if text <= 0:
            raise UsageError(f"{what} must be positive, not {text}")
        return text
    if not isinstance(text, str):
        raise UsageError(f"not a size: {text!r}", hint='write it like "8GiB", or in bytes')
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?\s*", text.lower())
    if found is None or float(found[1]) == 0:
        raise UsageError(f"not a size: {text!r}", hint='write it like "8GiB" or "500MB"')
    number, unit, binary = found.groups()
    scale = _UNITS[unit]
    if unit and not binary and text.lower().rstrip().endswith("b"):
        scale = 1000 ** ("kmgt".index(unit) + 1)
    return int(float(number) * scale)
