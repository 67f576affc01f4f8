"""Commands on settings: `.set`, shortcuts for frequent settings, `.device` and `.cluster`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from typing import TYPE_CHECKING

from gdatalog.errors import UsageError
from gdatalog.progress import format_bytes
from gdatalog.records import dataclass, replace
from gdatalog.shell.conversation import Conversation, Loaded
from gdatalog.shell.messages import aligned, say
from gdatalog.shell.options import FORMATS, chosen
from gdatalog.shell.parameters import parameter_text, read_parameters
from gdatalog.shell.registry import COMMANDS, command
from gdatalog.storage.load_options import options_of_text
from gdatalog.storage.remote import RemoteRows
from gdatalog.user_settings import AT_START, all_settings, parse_settings

if TYPE_CHECKING:
    from gdatalog.database import Database


@dataclass(frozen=True, slots=True)
class PromptSetting:
    """A setting; without `values`, as help shows them, it is read-only. `trusted`: it cannot be
    changed with --untrusted."""

    values: str
    summary: str
    trusted: bool = False


OUTPUT: dict[str, PromptSetting] = {
    "mode": PromptSetting("|".join(FORMATS), "Format of answers."),
    "maxrows": PromptSetting("N|auto", "Maximum rows of a box."),
    "limit": PromptSetting("N|off", "Maximum rows of an answer."),
    "timer": PromptSetting("on|off", "Whether times are printed."),
}


@cache
def prompt_settings() -> Mapping[str, PromptSetting]:
    """The settings that `.set` lists: of the prompt, and of the database."""
    found = dict(OUTPUT)
    for name, each in all_settings().items():
        values = "" if name in AT_START else each.forms
        found[name] = PromptSetting(values, each.meaning, trusted=True)
    found["device"] = PromptSetting("", "Where queries run.")
    return found


def _values(repl: Conversation) -> dict[str, str]:
    """The values of the settings, as they are shown."""
    output, db, workspace = repl.output, repl.db, repl.db.workspace
    return {
        "mode": output.format,
        "maxrows": str(output.max_rows or "auto"),
        "limit": "off" if output.limit is None else f"{output.limit:,}",
        "timer": "on" if repl.timer else "off",
        **shown_settings(db),
        "device": f"{db.device} ({workspace.why})",
    }


def shown_settings(db: Database) -> dict[str, str]:
    """The values of a database's settings, as they are shown."""
    workspace = db.workspace
    spill = workspace.spill
    found = {
        name: each.show(getattr(workspace.settings, name)) for name, each in all_settings().items()
    }
    return found | {
        "memory_limit": format_bytes(db.memory_limit),
        "temp_limit": "none" if spill is None else format_bytes(spill.limit),
    }


def _change(repl: Conversation, name: str, value: str) -> None:
    output = repl.output
    match name:
        case "mode":
            output.format, output.given = chosen(value, FORMATS, "mode"), True
        case "maxrows":
            hint = ".maxrows 100, or .maxrows auto for as fits"
            output.max_rows = None if value == "auto" else _rows(value, 1, hint)
        case "limit":
            hint = ".limit 20, or .limit off for all"
            output.limit = None if value == "off" else _rows(value, 0, hint)
        case "timer":
            repl.timer = chosen(value, ("on", "off"), "timer") == "on"
        case _:
            repl.db.workspace.force(**parse_settings([f"{name}={value}"]))


def _rows(value: str, least: int, hint: str) -> int:
    if not (value.isascii() and value.isdecimal() and int(value) >= least):
        raise UsageError(f"not a number of rows: {value!r}", hint=hint)
    return int(value)


def _setting(repl: Conversation, words: list[str], name: str) -> None:
    """Changes a setting if a value is given, then shows it."""
    setting = prompt_settings()[name]
    if words and setting.values:
        if setting.trusted:
            repl.check_trusted(f"a change of {name}")
        _change(repl, name, words[0])
    say(f"{name}: {_values(repl)[name]}")


def _commands() -> None:
    """Registers shortcuts for the most frequent settings."""
    for name, arguments, summary, example, more in (
        ("mode", "[FORMAT]", "format of answers", ".mode markdown",
         f"One of {', '.join(FORMATS)}."),
        ("maxrows", "[N|auto]", "maximum rows of a box", ".maxrows 100",
         "auto: as many as fit the terminal, and all into a file."),
        ("limit", "[N|off]", "maximum rows of an answer", ".limit 20",
         "Where possible, evaluation stops there. Files get all rows."),
        ("timer", "[on|off]", "print the time of each statement", ".timer on",
         "Splits it into parsing, planning, compiling, indexing and running."),
    ):  # fmt: skip
        run = partial(_setting, name=name)
        command("settings", name, arguments, summary, example, more=more)(run)


_commands()


@command("settings", "device", "", "where queries run, and why")
def _device(repl: Conversation, words: list[str]) -> None:
    repl.output.text(f"device: {_values(repl)['device']}")


@command(
    "settings", "cluster", "[WHERE|off]", "show the workers; connect to others",
    ".cluster local", ".cluster tcp://10.0.0.7:8786", ".cluster off",
    more="WHERE is the address of a Dask scheduler, or `local`, which starts workers on this "
    "machine: one for each core, or as many as .set threads says. Large queries run on them.",
    trusted=True,
)  # fmt: skip
def _cluster(repl: Conversation, words: list[str]) -> None:
    if words:
        before = repl.db.workspace.stored
        with repl.line("connecting to the cluster"):
            repl.loaded = change(repl.db, words[0], repl.loaded)
        repl.history.moved(repl, before)
    repl.output.text(status(repl.db))


@command(
    "settings", "set", "[NAME [VALUE]]", "show all settings; change one, or a parameter",
    ".set strategy levelwise", ".set threads 2", ".set $limit 20",
    raw=True,
)  # fmt: skip
def _set(repl: Conversation, words: list[str]) -> None:
    name, _, value = words[0].strip().partition(" ")
    if name.startswith("$"):
        _set_parameter(repl, name, value.strip())
        return
    words = replace(COMMANDS["set"], raw=False).words(words[0])
    if not words:
        shown = _values(repl)
        known = prompt_settings().items()
        rows = [(own, shown[own], s.values or "set at the start") for own, s in known]
        for own in sorted(repl.params):
            rows.append((f"${own}", parameter_text(repl.params[own]), "a parameter"))
        repl.output.text(aligned(rows))
        return
    name = chosen(words[0], prompt_settings(), "setting")
    setting = prompt_settings()[name]
    if words[1:] and not setting.values:
        option = f"--{name.replace('_', '-')}"
        raise UsageError(f"{name} cannot be changed here", hint=f"gdatalog {option} sets it")
    _setting(repl, words[1:], name)
    if not words[1:]:
        say(f"  {setting.summary}" + f"\n  values: {setting.values}" * bool(setting.values))


def _set_parameter(repl: Conversation, name: str, value: str) -> None:
    """Sets a parameter; rules that use it are evaluated again."""
    if value:
        given = read_parameters([f"{name}={value}"])
        repl.params = {**repl.params, **given}
        workspace = repl.db.workspace
        workspace.catalog = workspace.catalog.with_params(given)
    name = name.removeprefix("$")
    if name not in repl.params:
        raise UsageError(f"the parameter ${name} has no value", hint=f".set ${name} VALUE")
    say(f"${name}: {parameter_text(repl.params[name])}")


if TYPE_CHECKING:
    from gdatalog.database import Database


def change(db: Database, where: str, loaded: Mapping[str, Loaded]) -> Mapping[str, Loaded]:
    """Connects the database to the workers at `where`; "off" disconnects. Files whose rows lie on
    the old workers are read again. Returns the new `loaded`."""
    from gdatalog.cluster import spread_over

    workspace = db.workspace
    with db.call():
        stored = workspace.stored
        away = [name for name, data in stored.items() if isinstance(data.store, RemoteRows)]
        files = {n: loaded[n].path for n in away if n in loaded and loaded[n].same(stored[n])}
        left = [name for name in away if name not in files]
        if left:
            raise UsageError(
                f"the rows of {left[0]} lie on the workers",
                hint=f"drop them first: .drop --data {' '.join(left)}",
            )
        new = None
        if where != "off":
            new = spread_over(where, db.memory_limit, workspace.settings.threads, "auto")
        options = {name: dict(loaded[name].options) for name in files}
        workspace.move_to(
            new, {name: (path, options_of_text(options[name])) for name, path in files.items()}
        )
        made = {
            name: Loaded.of(path, workspace.stored[name], options[name])
            for name, path in files.items()
        }
        return {**loaded, **made}


def status(db: Database) -> str:
    """Lists the current workers."""
    cluster = db.cluster
    if cluster is None:
        return "no cluster: .cluster local starts workers on this machine"
    cluster.again()
    rows = [("worker", "address", "threads", "memory")]
    rows += [
        (worker.name, worker.address, str(worker.threads), format_bytes(worker.memory))
        for worker in cluster.workers
    ]
    columns = list(zip(*rows, strict=True))
    if columns[0][1:] == columns[1][1:]:  # unnamed workers are named by their addresses
        del columns[1]
    text = f"{cluster}, scheduler at {cluster.address}\ndashboard: {cluster.dashboard}"
    return f"{text}\n{aligned(list(zip(*columns, strict=True)))}"
