"""The command line and the prompt with a Dask cluster."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

import gdatalog as gd
from gdatalog.cluster.workers.worker_list import Worker
from gdatalog.shell import cli, doctor
from gdatalog.shell.commands.settings import status
from gdatalog.shell.editor.known import look
from gdatalog.shell.output import Output
from gdatalog.shell.repl import Repl
from tests.clusters import Workers
from tests.tuned import tune

GRAPH = "E(1, 2). E(2, 3). E(1, 3). ?- E(x, y), E(y, z), E(x, z)."


@pytest.fixture
def address(cluster: Workers) -> str:
    return str(cluster(2).scheduler.address)


def test_a_program_on_a_cluster(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["--cluster", address, "-c", GRAPH]) == 0
    assert capsys.readouterr() == ("x\ty\tz\n1\t2\t3\n", "")


def test_nobody_there_is_code_3(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["--cluster", "127.0.0.1:9", "-c", GRAPH]) == 3
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("device error: no scheduler is at tcp://127.0.0.1:9: ")


class Talk:
    """A conversation without a terminal."""

    def __init__(self) -> None:
        self.out = io.StringIO()
        self.repl = Repl(gd.connect(device="cpu"), Output(self.out, None))

    def __call__(self, line: str) -> str:
        self.out.truncate(self.out.seek(0))
        self.repl.take_all(line)
        return self.out.getvalue().strip()


@pytest.fixture
def talk() -> Iterator[Talk]:
    talk = Talk()
    yield talk
    talk.repl.db.close()


def test_the_prompt_connects_and_leaves(
    address: str, talk: Talk, capsys: pytest.CaptureFixture[str]
) -> None:
    assert talk(".cluster").startswith("no cluster")
    shown = talk(f".cluster {address}").splitlines()
    assert shown, capsys.readouterr().err
    assert shown[0] == f"2 workers, scheduler at {address}"
    assert shown[1].startswith("dashboard: http://")
    assert re.fullmatch(r"worker  address +threads  memory", shown[2])
    assert [line.split()[2] for line in shown[3:]] == ["1", "1"]
    assert look(talk.repl.db)[1].device == "cpu and 2 workers"
    before = talk.repl.db.cluster.client
    talk("e(1, 2).")
    talk("p(y) <- e(_, y).")
    assert talk(".cluster off").startswith("no cluster")
    assert before.status == "closed"
    assert "2" in talk("p(x).") and look(talk.repl.db)[1].device == "cpu"


def test_it_is_told_what_did_the_work(
    address: str, talk: Talk, capsys: pytest.CaptureFixture[str]
) -> None:
    talk(f".cluster {address}")
    output, db = talk.repl.output, talk.repl.db
    output.format, output.timed = "box", True
    talk("E(1, 2). E(2, 3). E(1, 3). E(3, 4).")
    db.workspace.force(spread="replicate")
    query = "?- E(x, y), E(y, z)."
    assert re.search(r"3 rows \(\d\.\d{3} s, cluster, 2 workers\)$", talk(query))
    capsys.readouterr()
    talk("p(x, z) <- E(x, y), E(y, z). path(x, y) <- E(x, y). path(x, z) <- path(x, y), E(y, z).")
    told = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"p: 3 tuples \(\d\.\d{3} s, cluster, 2 workers\)", told[0])
    assert re.fullmatch(r"path: 6 tuples \(\d\.\d{3} s, cluster, 2 workers\)", told[1])
    label = db.profile(query).tree.label
    assert re.match(r"\d\.\d{3} s on cpu and 2 workers, ", label)
    # What is there already, or done here, was not done by workers.
    db.workspace.force(spread="never")
    assert re.search(r"3 rows \(\d\.\d{3} s\)$", talk(query))
    capsys.readouterr()
    talk("q(x) <- E(x, y), E(y, _).")
    assert re.fullmatch(r"q: 2 tuples \(\d\.\d{3} s, cpu\)\n", capsys.readouterr().err)
    assert "workers" not in db.profile(query).tree.label


def test_timing_tells_what_did_the_work(
    address: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tune(monkeypatch, spread_from=0.0)
    assert cli.run(["--cluster", address, "--timing", "-c", GRAPH]) == 0
    told = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"query: \d+\.\d{3} s, cluster, 2 workers", told[0])


def test_workers_without_names_are_told_once() -> None:
    workers = [
        Worker(f"tcp://10.0.0.{at}:40000", name, "10.0.0.7", 1, 1 << 30)
        for at, name in ((7, "tcp://10.0.0.7:40000"), (8, "tcp://10.0.0.8:40000"))
    ]
    cluster = SimpleNamespace(
        again=lambda: None, workers=workers, address="tcp://a:1", dashboard=""
    )
    shown = status(SimpleNamespace(cluster=cluster)).splitlines()[2:]  # type: ignore[arg-type]
    assert shown == [
        "worker                threads  memory",
        "tcp://10.0.0.7:40000  1        1.0 GiB",
        "tcp://10.0.0.8:40000  1        1.0 GiB",
    ]


def test_an_address_that_is_wrong_changes_nothing(
    address: str, talk: Talk, capsys: pytest.CaptureFixture[str]
) -> None:
    talk(f".cluster {address}")
    before = talk.repl.db.cluster
    assert talk(".cluster nowhere") == "" and talk.repl.db.cluster is before
    assert "'nowhere' has no port" in capsys.readouterr().err


def test_a_connection_that_is_lost_is_told(
    address: str, talk: Talk, capsys: pytest.CaptureFixture[str]
) -> None:
    talk(f".cluster {address}")
    talk.repl.db.cluster.client.close()
    talk(".cluster")
    assert f"the connection to the scheduler at {address} is lost" in capsys.readouterr().err


def test_the_doctor_looks_at_a_cluster(address: str) -> None:
    found = list(doctor._cluster(address))
    assert found[0].found == f"2 workers, scheduler at {address}"
    assert re.fullmatch(r"2 of 1 thread and .*iB", found[1].found)
    assert found[2].name == "query on workers" and found[2].found.startswith("works, in ")
    (ill,) = doctor._cluster("127.0.0.1:9")
    assert ill.found.startswith("no scheduler is at") and ill.cure


@pytest.mark.slow
def test_the_demo_starts_asks_kills_and_stops(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from benchmarks import on_workers

    monkeypatch.setattr(on_workers, "KILLED_AFTER", 0.0)
    monkeypatch.setattr(on_workers, "EDGES", 20_000)
    assert on_workers.main() == 0
    shown = capsys.readouterr().out
    assert "\nstarted in " in shown and "is killed while 4-cycles are counted" in shown
    assert shown.endswith("stopped; none of the workers left\n")
