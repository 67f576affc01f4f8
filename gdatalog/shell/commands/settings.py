"""Commands on settings: `.set`, shortcuts for frequent settings, `.device` and `.cluster`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from gdatalog.engine.session import STRATEGIES, parse_seconds, threads_of
from gdatalog.errors import UsageError
from gdatalog.progress import format_bytes
from gdatalog.records import dataclass
from gdatalog.shell import say
from gdatalog.shell.conversation import Conversation, Loaded, check_trusted, command, words_of
from gdatalog.shell.options import FORMATS, chosen
from gdatalog.shell.program import read_parameters
from gdatalog.storage import options_of_text
from gdatalog.storage.remote import RemoteRows

if TYPE_CHECKING:
    from gdatalog.database import Database


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting; without `change` it is read-only. `values` appear in help. `trusted`: cannot be
    changed with --untrusted."""

    values: str
    summary: str
    show: Callable[[Conversation], str]
    change: Callable[[Conversation, str], None] | None = None
    trusted: bool = False


def _mode_of(repl: Conversation) -> str:
    return repl.output.format


def _change_mode(repl: Conversation, value: str) -> None:
    repl.output.format = chosen(value, FORMATS, "mode")
    repl.output.given = True


def _maxrows_of(repl: Conversation) -> str:
    return str(repl.output.max_rows or "auto")


def _change_maxrows(repl: Conversation, value: str) -> None:
    if value != "auto" and (not value.isdecimal() or int(value) == 0):
        raise UsageError(
            f"not a number of rows: {value!r}", hint=".maxrows 100, or .maxrows auto for as fits"
        )
    repl.output.max_rows = None if value == "auto" else int(value)


def _limit_of(repl: Conversation) -> str:
    return "off" if repl.output.limit is None else f"{repl.output.limit:,}"


def _change_limit(repl: Conversation, value: str) -> None:
    if value != "off" and not (value.isascii() and value.isdecimal()):
        raise UsageError(
            f"not a number of rows: {value!r}", hint=".limit 20, or .limit off for all"
        )
    repl.output.limit = None if value == "off" else int(value)


def _change_timer(repl: Conversation, value: str) -> None:
    repl.timer = chosen(value, ("on", "off"), "timer") == "on"


def _change_strategy(repl: Conversation, value: str) -> None:
    repl.db.workspace.force(strategy=chosen(value, STRATEGIES, "strategy"))


def _change_threads(repl: Conversation, value: str) -> None:
    count = int(value) if value.isdecimal() else value
    repl.db.workspace.force(threads=threads_of(None if value == "auto" else count))


def _change_timeout(repl: Conversation, value: str) -> None:
    repl.db.workspace.timeout = parse_seconds(value)


def _timeout_of(repl: Conversation) -> str:
    seconds = repl.db.workspace.timeout
    return "off" if seconds is None else f"{seconds:g} s"


def _timer_of(repl: Conversation) -> str:
    return "on" if repl.timer else "off"


def _strategy_of(repl: Conversation) -> str:
    return repl.db.workspace.knobs.strategy


def _threads_of(repl: Conversation) -> str:
    return str(repl.db.workspace.knobs.threads or "auto")


def _device_of(repl: Conversation) -> str:
    return f"{repl.db.device} ({repl.db.workspace.why})"


def _memory_of(repl: Conversation) -> str:
    return format_bytes(repl.db.memory_limit)


SETTINGS: dict[str, Setting] = {
    "mode": Setting("|".join(FORMATS), "how answers are written", _mode_of, _change_mode),
    "maxrows": Setting("N|auto", "how many rows a box shows", _maxrows_of, _change_maxrows),
    "limit": Setting("N|off", "how many rows an answer has at most", _limit_of, _change_limit),
    "timer": Setting("on|off", "whether times are printed", _timer_of, _change_timer),
    "strategy": Setting(
        "|".join(STRATEGIES), "how rules are run", _strategy_of, _change_strategy, True
    ),
    "threads": Setting("N|auto", "for compiled loops", _threads_of, _change_threads, True),
    "timeout": Setting(
        "SECONDS|off", "how long a statement may take", _timeout_of, _change_timeout, True
    ),
    "device": Setting("", "where queries run: --device chooses", _device_of),
    "memory": Setting("", "what a query may hold: --memory-limit chooses", _memory_of),
}


def _setting(repl: Conversation, rest: str, name: str) -> None:
    """Changes a setting if a value is given, then shows it."""
    words = words_of(rest, name, 0, 1)
    setting = SETTINGS[name]
    if words and setting.change is not None:
        if setting.trusted:
            check_trusted(repl, f"a change of {name}")
        setting.change(repl, words[0])
    say(f"{name}: {setting.show(repl)}")


def _commands() -> None:
    """Registers shortcuts for the most frequent settings."""
    for name, arguments, summary, example, more in (
        ("mode", "[FORMAT]", "how answers are written", ".mode markdown",
         f"One of {', '.join(FORMATS)}."),
        ("maxrows", "[N|auto]", "how many rows a box shows", ".maxrows 100",
         "auto: as many as fit the terminal, and all into a file."),
        ("limit", "[N|off]", "how many rows an answer has at most", ".limit 20",
         "A query is evaluated no further than that, where it can be. Files get all rows."),
        ("timer", "[on|off]", "tell where the time went", ".timer on",
         "What parsing, planning, compiling, indexing and running took, after each statement."),
    ):  # fmt: skip
        run = partial(_setting, name=name)
        command("settings", name, arguments, summary, example, more=more)(run)


_commands()


@command("settings", "device", "", "where queries run, and why")
def _device(repl: Conversation, rest: str) -> None:
    words_of(rest, "device", 0, 0)
    repl.output.text(f"device: {SETTINGS['device'].show(repl)}")


@command(
    "settings", "cluster", "[WHERE|off]", "the workers that share the work; others",
    ".cluster local", ".cluster tcp://10.0.0.7:8786", ".cluster off",
    more="WHERE is the address of a Dask scheduler, or `local`, which starts workers on this "
    "machine: one for each core, or as many as .set threads says. They share what takes long.",
    trusted=True,
)  # fmt: skip
def _cluster(repl: Conversation, rest: str) -> None:
    words = words_of(rest, "cluster", 0, 1)
    if words:
        before = repl.db.workspace.stored
        with repl.line("connecting to the cluster"):
            repl.loaded = change(repl.db, words[0], repl.loaded)
        repl.history.moved(repl, before)
    repl.output.text(status(repl.db))


@command(
    "settings", "set", "[NAME [VALUE]]", "all settings; change one, or a parameter's value",
    ".set strategy levelwise", ".set threads 2", ".set $limit 20",
)  # fmt: skip
def _set(repl: Conversation, rest: str) -> None:
    name, _, value = rest.strip().partition(" ")
    if name.startswith("$"):
        _parameter(repl, name, value.strip())
        return
    words = words_of(rest, "set", 0, 2)
    if not words:
        repl.output.text(_all(repl))
        return
    setting = SETTINGS[chosen(words[0], SETTINGS, "setting")]
    if words[1:] and setting.change is None:
        raise UsageError(
            f"{words[0]} cannot be changed here", hint=f"{setting.summary}, when gdatalog starts"
        )
    _setting(repl, " ".join(words[1:]), words[0])


def _all(repl: Conversation) -> str:
    rows = [(name, s.show(repl), s.values or s.summary) for name, s in SETTINGS.items()]
    rows += [(f"${name}", _value(repl, name), "a parameter") for name in sorted(repl.params)]
    wide, deep = (max(len(row[at]) for row in rows) for at in (0, 1))
    return "\n".join(f"{a:<{wide}}  {b:<{deep}}  {c}" for a, b, c in rows)


def _value(repl: Conversation, name: str) -> str:
    from gdatalog.shell.conversation import parameter_text

    return parameter_text(repl.params[name])


def _parameter(repl: Conversation, name: str, value: str) -> None:
    """Sets a parameter; rules that use it are evaluated again."""
    if value:
        given = read_parameters([f"{name}={value}"])
        repl.params = {**repl.params, **given}
        workspace = repl.db.workspace
        workspace.params = {**workspace.params, **given}
    name = name.removeprefix("$")
    if name not in repl.params:
        raise UsageError(f"the parameter ${name} has no value", hint=f".set ${name} VALUE")
    say(f"${name}: {_value(repl, name)}")


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
                hint=f".drop --data {' '.join(left)} lets go of them first",
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
    cells = [[f"{cell:<{max(map(len, column))}}" for cell in column] for column in columns]
    lines = map("  ".join, zip(*cells, strict=True))
    text = f"{cluster}, scheduler at {cluster.address}\ndashboard: {cluster.dashboard}"
    return "\n".join([text, *(line.rstrip() for line in lines)])
