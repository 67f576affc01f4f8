"""Connects the database to workers, disconnects from them, and lists them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gdatalog.errors import UsageError
from gdatalog.progress import format_bytes
from gdatalog.shell.conversation import Loaded
from gdatalog.shell.messages import aligned
from gdatalog.storage.load_options import options_of_text
from gdatalog.storage.remote import RemoteRows

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
