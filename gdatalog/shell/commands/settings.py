"""Commands on settings: `.set`, shortcuts for frequent settings, `.device` and `.cluster`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from gdatalog.engine.knobs import STRATEGIES
from gdatalog.engine.options import parse_seconds, parse_threads
from gdatalog.errors import UsageError
from gdatalog.progress import format_bytes
from gdatalog.records import dataclass, replace
from gdatalog.shell import aligned, say
from gdatalog.shell.conversation import COMMANDS, Conversation, Loaded, command, parameter_text
from gdatalog.shell.options import FORMATS, chosen
from gdatalog.shell.program import read_parameters
from gdatalog.storage import options_of_text
from gdatalog.storage.remote import RemoteRows

if TYPE_CHECKING:
    from gdatalog.database import Database


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting; without `values`, as help shows them, it is read-only. `trusted`: it cannot be
    changed with --untrusted."""

    values: str
    summary: str
    trusted: bool = False


SETTINGS: dict[str, Setting] = {
    "mode": Setting("|".join(FORMATS), "format of answers"),
    "maxrows": Setting("N|auto", "maximum rows of a box"),
    "limit": Setting("N|off", "maximum rows of an answer"),
    "timer": Setting("on|off", "whether times are printed"),
    "strategy": Setting("|".join(STRATEGIES), "how rules are run", trusted=True),
    "threads": Setting("N|auto", "threads of compiled loops", trusted=True),
    "timeout": Setting("SECONDS|off", "time limit of a statement", trusted=True),
    "device": Setting("", "where queries run: set by --device"),
    "memory": Setting("", "memory limit of a query: set by --memory-limit"),
    "temp": Setting("", "limit of temporary files: set by --temp-limit"),
}


def _values(repl: Conversation) -> dict[str, str]:
    """The values of the settings, as they are shown."""
    output, db, workspace = repl.output, repl.db, repl.db.workspace
    timeout = workspace.timeout
    return {
        "mode": output.format,
        "maxrows": str(output.max_rows or "auto"),
        "limit": "off" if output.limit is None else f"{output.limit:,}",
        "timer": "on" if repl.timer else "off",
        "strategy": workspace.knobs.strategy,
        "threads": str(workspace.knobs.threads or "auto"),
        "timeout": "off" if timeout is None else f"{timeout:g} s",
        "device": f"{db.device} ({workspace.why})",
        "memory": format_bytes(db.memory_limit),
        "temp": "none" if workspace.spill is None else format_bytes(workspace.spill.limit),
    }


def _change(repl: Conversation, name: str, value: str) -> None:
    output, workspace = repl.output, repl.db.workspace
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
        case "strategy":
            workspace.force(strategy=chosen(value, STRATEGIES, "strategy"))
        case "threads":
            workspace.force(threads=parse_threads(value) or 0)
        case "timeout":
            workspace.timeout = parse_seconds(value)


def _rows(value: str, least: int, hint: str) -> int:
    if not (value.isascii() and value.isdecimal() and int(value) >= least):
        raise UsageError(f"not a number of rows: {value!r}", hint=hint)
    return int(value)


def _setting(repl: Conversation, words: list[str], name: str) -> None:
    """Changes a setting if a value is given, then shows it."""
    if words and SETTINGS[name].values:
        if SETTINGS[name].trusted:
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
        rows = [(own, shown[own], s.values or s.summary) for own, s in SETTINGS.items()]
        for own in sorted(repl.params):
            rows.append((f"${own}", parameter_text(repl.params[own]), "a parameter"))
        repl.output.text(aligned(rows))
        return
    setting = SETTINGS[chosen(words[0], SETTINGS, "setting")]
    if words[1:] and not setting.values:
        raise UsageError(
            f"{words[0]} cannot be changed here", hint=f"{setting.summary}, when gdatalog starts"
        )
    _setting(repl, words[1:], words[0])


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


# `.cluster` connects the database to workers, disconnects from them, or lists them.


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
            new = spread_over(where, db.memory_limit, workspace.knobs.threads, "auto")
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
