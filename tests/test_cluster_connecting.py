"""Connecting a database to a Dask cluster, what is said where that fails, and how it ends."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import gdatalog as gd
from gdatalog.cluster.workers import worker_list
from gdatalog.cluster.workers.connection import Connection, raises_if_lost
from gdatalog.cluster.workers.worker_list import Worker, problem_of
from tests.clusters import Workers

TRIANGLES = "n(count()) <- E(a,b), E(b,c), E(a,c)."
EDGES = [(i, j) for i in range(30) for j in range(i)]


@pytest.mark.parametrize("number", [1, 3, 2])
def test_as_many_workers_as_are_asked_for(cluster: Workers, number: int) -> None:
    client = cluster(number)
    processes = client.run(os.getpid).values()
    assert len(set(processes) - {os.getpid()}) == number


@pytest.fixture
def client(cluster: Workers) -> Iterator[Any]:
    client = cluster(2)
    yield client
    assert client.status == "running"


@pytest.mark.parametrize("named", ["client", "cluster", "address", "host and port", "file"])
def test_a_cluster_by_what_names_it(named: str, client: Any, tmp_path: Path) -> None:
    address = client.scheduler.address
    file = tmp_path / "scheduler.json"
    file.write_text(json.dumps({"address": address}))
    given = {
        "client": client,
        "cluster": client.cluster,
        "address": address,
        "host and port": address.removeprefix("tcp://"),
        "file": str(file),
    }[named]
    with gd.connect(cluster=given, device="cpu") as db:
        db["E"] = EDGES
        assert db.query(TRIANGLES).fetchall() == [(4060,)]
        assert repr(db) == "<gdatalog.Database on cpu and 2 workers: E>"
        assert db.cluster.address == address and sum(db.cluster.client.nthreads().values()) == 2
        assert len({worker.address for worker in db.cluster.workers}) == 2
    assert client.submit(sum, [1, 2]).result() == 3  # what is the user's goes on


def test_another_default_client_is_not_made(client: Any) -> None:
    from distributed import default_client

    def default() -> Any:
        try:
            return default_client()
        except ValueError:
            return None

    before = default()
    with gd.connect(cluster=client.scheduler.address):
        assert default() is before


def test_without_a_cluster_there_is_none() -> None:
    assert gd.connect().cluster is None


def said(cluster: Any) -> str:
    with pytest.raises(gd.Error) as error:
        gd.connect(cluster=cluster)
    return str(error.value)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def test_nobody_there() -> None:
    port = free_port()
    assert said(f"127.0.0.1:{port}") == (
        f"device error: no scheduler is at tcp://127.0.0.1:{port}: connection refused\n"
        f'  hint: `dask scheduler --port {port}` starts one there; the cluster "local" needs none'
    )


@pytest.mark.parametrize("greeting", [b"", b"SSH-2.0-OpenSSH_9.2"])
def test_somebody_else_there(greeting: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gdatalog.cluster.workers.connection.ANSWER_TIME", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as other, ThreadPoolExecutor(1) as aside:

        def answer() -> None:
            with other.accept()[0] as caller:
                caller.sendall(greeting)
                caller.recv(1)

        aside.submit(answer)
        address = f"tcp://127.0.0.1:{other.getsockname()[1]}"
        assert f"the server at {address} is not a Dask scheduler\n" in said(address)


def test_no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    from distributed import LocalCluster

    monkeypatch.setattr(worker_list, "IN_TIME", 0.1)
    with LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as empty:
        assert "has no workers: none came within" in said(empty)


def test_a_client_that_cannot_be_used(client: Any) -> None:
    from distributed import Client

    gone = Client(client.scheduler.address, set_as_default=False)
    gone.close()
    assert said(gone) == "usage error: this Dask client is closed"


def test_what_is_no_cluster() -> None:
    assert said(5).startswith("usage error: not a cluster: 5\n  hint: it is a Dask client,")


def test_dask_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    for cluster in ("local", "tcp://127.0.0.1:8786"):
        assert said(cluster) == (
            "device error: a cluster cannot be used: Dask is not installed\n"
            "  hint: in a clone of gdatalog: python -m pip install '.[cluster]'"
        )


def test_places_that_cannot_run_our_work() -> None:
    here = f"{sys.version_info.major}.{sys.version_info.minor}.0"
    own = worker_list.sources()
    assert problem_of((here, gd.__version__, 1, own)) is None
    missing = ModuleNotFoundError("No module named 'gdatalog'", name="gdatalog")
    others = [
        (here, "0.0.9", 1, own),
        ("3.9.1", gd.__version__, 1, own),
        (here, gd.__version__, 1, own + 1),
    ]
    found = [problem_of(it) for it in (missing, *others)]
    told = [it[0] for it in found if it is not None]
    assert told[0] == "gdatalog is not installed there"
    assert told[1] == f"its gdatalog is 0.0.9, and here it is {gd.__version__}"
    assert told[2].startswith("its Python is 3.9.1, and here it is 3.")
    assert told[3] == f"its gdatalog is {gd.__version__} as here, but its files differ"


def test_a_scheduler_that_began_with_other_files() -> None:
    class Spread:
        connection = Connection(
            SimpleNamespace(scheduler=SimpleNamespace(address="tcp://a:1"), dashboard_link="")
        )

        @raises_if_lost
        def ask(self) -> None:
            told = "Error during deserialization of the task graph. This frequently occurs if"
            raise RuntimeError(told) from ModuleNotFoundError("No module named 'gdatalog.other'")

    with pytest.raises(gd.DeviceError) as error:
        Spread().ask()
    assert error.value.message == (
        "the scheduler at tcp://a:1 cannot read what this gdatalog sends it: "
        "No module named 'gdatalog.other'"
    )


class Scheduler:
    """What is asked of a client, with what two workers say."""

    address = "tcp://10.0.0.1:8786"

    def __init__(self, said: list[Any], scheduler: Any = None) -> None:
        self.said = dict(zip(("tcp://10.0.0.2:1", "tcp://10.0.0.3:1"), said, strict=True))
        self.of_scheduler = scheduler

    def scheduler_info(self, n_workers: int) -> dict[str, Any]:
        told = {"host": "10.0.0.2", "nthreads": 2, "memory_limit": 0}
        return {
            "workers": {address: {"name": 10 - at, **told} for at, address in enumerate(self.said)}
        }

    def nthreads(self) -> dict[str, int]:
        return dict.fromkeys(self.said, 2)

    def run(self, *_: Any, **__: Any) -> dict[str, Any]:
        return self.said

    def run_on_scheduler(self, *_: Any) -> Any:
        if self.of_scheduler is not None:
            raise self.of_scheduler


WELL = (sys.version.split()[0], gd.__version__, 16 << 30, worker_list.sources(), False)
MISSING = ModuleNotFoundError("No module named 'gdatalog'", name="gdatalog")


def test_the_first_that_cannot_be_used_is_named() -> None:
    with pytest.raises(gd.DeviceError) as error:
        worker_list.look(Scheduler([WELL, MISSING], ValueError("not allowed")))
    assert error.value.message == (
        "the worker at tcp://10.0.0.3:1 cannot be used: gdatalog is not installed there"
    )
    with pytest.raises(gd.DeviceError) as error:
        worker_list.look(Scheduler([MISSING, MISSING], MISSING))
    assert error.value.message.endswith("not installed there; the same at 2 more of 3")
    with pytest.raises(gd.DeviceError, match="the scheduler cannot be used"):
        worker_list.look(Scheduler([WELL, WELL], MISSING))


def test_what_a_client_asked_for_itself_is_not_taken_for_all() -> None:
    class Crossed(Scheduler):
        asked = 0

        def scheduler_info(self, n_workers: int) -> dict[str, Any]:
            self.asked += 1
            told = super().scheduler_info(n_workers)
            return told if self.asked == 3 else {"workers": {}}

    assert len(worker_list.workers_told(Crossed([WELL, WELL]))) == 2


def test_workers_that_all_died_just_now(monkeypatch: pytest.MonkeyPatch) -> None:
    class Dying(Scheduler):
        def run(self, *_: Any, **__: Any) -> dict[str, Any]:
            found, self.said = self.said, dict.fromkeys(self.said, WELL)
            return found

    dead = [ConnectionResetError("reset"), OSError("closed")]
    assert len(worker_list.look(Dying(dead, ValueError("not allowed")))) == 2
    monkeypatch.setattr(worker_list, "IN_TIME", 0)
    with pytest.raises(gd.DeviceError, match="cannot be used: it does not answer: reset"):
        worker_list.look(Scheduler(dead, ValueError("not allowed")))


def test_workers_without_a_limit_share_their_machine() -> None:
    found = worker_list.look(Scheduler([WELL, WELL], ValueError("not allowed")))
    assert [worker.name for worker in found] == ["9", "10"]
    assert found[0] == Worker("tcp://10.0.0.3:1", "9", "10.0.0.2", 2, 8 << 30)
    assert found[0].budget < 4 << 30 and str(found[0]) == "tcp://10.0.0.3:1: 2 threads, 8.0 GiB"


SCRIPT = """
import gdatalog as gd
db = gd.connect(cluster="local", threads=2, memory_limit="2GiB", device="cpu")
db["E"] = [(i, j) for i in range(30) for j in range(i)]
db.workspace.force(spread="replicate")
print(db.query("n(count()) <- E(a,b), E(b,c), E(a,c).").fetchall())
print(db, [worker.memory >> 30 for worker in db.cluster.workers])
print(*db.cluster.client.run(__import__('os').getpid).values())
"""


def test_workers_of_this_machine_end_with_the_script() -> None:
    """Nothing guards its top, nothing closes the database, and nothing is said at the end."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
    answer, shown, processes = done.stdout.splitlines()
    assert answer == "[(4060,)]"
    assert shown == "<gdatalog.Database on cpu and 2 workers: E> [1, 1]"
    for process in map(int, processes.split()):
        assert not runs(process)


def runs(process: int) -> bool:
    """Whether a process is there; one that nobody has asked how it ended is not."""
    import psutil

    try:
        return psutil.Process(process).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_what_fails_on_the_way_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []

    class Thing:
        address = "tcp://127.0.0.1:1"

        def __init__(self, name: str) -> None:
            self.name = name

        def close(self) -> None:
            closed.append(self.name)
            raise OSError("it is gone by now")

    started = "gdatalog.cluster.workers.local.LocalWorkers.start"
    monkeypatch.setattr(started, lambda *_: Thing("workers"))
    monkeypatch.setattr("gdatalog.cluster.workers.connection.client_of", lambda _: Thing("client"))
    with pytest.raises(AttributeError):
        Connection.open("local", 1 << 30)
    assert closed == ["client", "workers"]


def test_whatever_fails_because_the_scheduler_is_gone_says_so() -> None:
    from distributed import LocalCluster

    with LocalCluster(n_workers=1, processes=False, dashboard_address=":0") as short:
        db = gd.connect(cluster=short, device="cpu")
        db["E"] = EDGES
        db.workspace.force(spread="replicate")
        assert db.query(TRIANGLES).fetchall() == [(4060,)]
        db.cluster.client.close()
        with pytest.raises(gd.Error, match=r"the connection to the (cluster|scheduler)"):
            db.query(TRIANGLES)
        db.workspace.force(spread="never")
        assert db.query(TRIANGLES).fetchall() == [(4060,)]
        db.close()
