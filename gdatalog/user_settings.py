"""What users set: the names, values and meanings of settings, checked, parsed and shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from gdatalog.errors import UsageError, meant
from gdatalog.options import parse_seconds, parse_size, parse_threads, seconds_of, threads_of
from gdatalog.progress import format_bytes
from gdatalog.records import dataclass, replace
from gdatalog.settings import Seconds, Settings, Size, Threads

# An open database cannot change these: devices, workers and temporary files have them already.
AT_START = ("memory_limit", "temp_limit")
Given = TypeVar("Given")


@dataclass(frozen=True, slots=True)
class Setting:
    """`words`: those of its values that are words."""

    name: str
    type: Any
    default: object
    meaning: str
    words: tuple[str, ...]

    @property
    def forms(self) -> str:
        """Its values, as help shows them: a word in capitals stands for a number."""
        number = {Threads: "N|", Seconds: "SECONDS|", Size: "SIZE|"}
        return number.get(self.type, "") + "|".join(self.words)

    def check(self, given: object) -> Any:
        """Checks a value, and converts it to the setting's type."""
        return self._sure(self._checked, given)

    def parse(self, text: str) -> Any:
        """A value that `check` takes.

        >>> setting("tile").parse("8"), setting("timeout").parse("off")
        (8, None)
        """
        return self._sure(self._parsed, text)

    def show(self, value: Any) -> str:
        """
        >>> setting("threads").show(0), setting("timeout").show(2.5), setting("dedup").show("hash")
        ('auto', '2.5 s', 'hash')
        """
        if self.type == Seconds:
            return "off" if value is None else f"{value:g} s"
        if self.type == Size and value is not None:
            return format_bytes(value)
        return str(value or "auto")

    def _sure(self, convert: Callable[[Given], Any], given: Given) -> Any:
        try:
            return convert(given)
        except UsageError as error:
            message = f"{self.name} cannot be {given!r}"
            raise UsageError(message, hint=error.hint or error.message) from None

    def _checked(self, given: Any) -> Any:
        if self.type == Threads:
            return threads_of(given)
        if self.type == Seconds:
            return seconds_of(given)
        if self.type == Size:
            return None if given is None else parse_size(given)
        values = get_args(self.type)
        if given is None and 0 in values:
            return 0
        if not isinstance(given, bool) and given in values:
            return given
        near = meant(given, self.words) if isinstance(given, str) else None
        words = f"one of {', '.join(self.words)}"
        raise UsageError(words if near is None else f"did you mean {near}? It is {words}")

    def _parsed(self, text: str) -> Any:
        if self.type == Threads:
            return parse_threads(text)
        if self.type == Seconds:
            return parse_seconds(text)
        if self.type == Size:
            return None if text == "auto" else parse_size(text)
        values = {self.show(value): value for value in get_args(self.type)}
        return self._checked(values.get(text, text))


@cache
def all_settings() -> Mapping[str, Setting]:
    """The settings, by name, in the order of `Settings`."""
    found: dict[str, Setting] = {}
    usual = Settings()
    for name, hint in get_type_hints(Settings, include_extras=True).items():
        if hasattr(hint, "__metadata__"):
            kind, meaning = get_args(hint)
            words: Iterable[object] = ("off",) if kind == Seconds else ("auto",)
            if get_origin(kind) is Literal:
                words = (value or "auto" for value in get_args(kind))
            found[name] = Setting(name, kind, getattr(usual, name), meaning, (*map(str, words),))
    return found


def setting(name: str) -> Setting:
    """The setting of this name; otherwise raises with a suggestion."""
    known = all_settings()
    if name in known:
        return known[name]
    near = meant(name, known)
    hint = f"one of {', '.join(known)}" if near is None else f"did you mean {near}?"
    raise UsageError(f"there is no setting {name!r}", hint=hint)


def checked_settings(given: Mapping[str, object]) -> dict[str, Any]:
    """
    >>> checked_settings({"threads": 2, "memory_limit": "1GiB", "timeout": 30})
    {'threads': 2, 'memory_limit': 1073741824, 'timeout': 30.0}
    """
    return {name: setting(name).check(value) for name, value in given.items()}


def parse_settings(given: Iterable[str]) -> dict[str, Any]:
    """Parses the values of `--set`; of a repeated setting the last one counts.

    >>> parse_settings(["strategy=lftj", "threads=auto"])
    {'strategy': 'lftj', 'threads': None}
    """
    found: dict[str, Any] = {}
    for each in given:
        name, equals, text = each.partition("=")
        if not equals:
            raise UsageError(
                f"--set {each}: the value is missing", hint="as in --set strategy=lftj"
            )
        found[name] = setting(name).parse(text)
    return found


def changed(settings: Settings, given: Mapping[str, object]) -> Settings:
    """The settings of an open database with new values."""
    for name in AT_START:
        if name in given:
            option = name.replace("_", "-")
            raise UsageError(
                f"{name} cannot be changed in an open database",
                hint=f"connect({name}=...) in Python, --{option} on the command line",
            )
    return replace(settings, **checked_settings(given))
