"""What `.cluster` does: connects the prompt's database to workers, lets them go, tells of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gdatalog.errors import UsageError
from gdatalog.progress import format_bytes
from gdatalog.shell.commands.undoing import Loaded
from gdatalog.storage.load_options import options_of_text
from gdatalog.storage.remote import RemoteRows

if TYPE_CHECKING:
    from gdatalog.database import Database


def change(db: Database, where: str, loaded: Mapping[str, Loaded]) -> Mapping[str, Loaded]:
    """Has workers share the work from now on, by what names them; "off": none. Files that the old
    ones read are read again; gives what is `loaded` now."""
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
    """The workers, as they are now."""
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
    if columns[0][1:] == columns[1][1:]:  # nobody gave them names
        del columns[1]
    cells = [[f"{cell:<{max(map(len, column))}}" for cell in column] for column in columns]
    lines = map("  ".join, zip(*cells, strict=True))
    text = f"{cluster}, scheduler at {cluster.address}\ndashboard: {cluster.dashboard}"
    return "\n".join([text, *(line.rstrip() for line in lines)])
