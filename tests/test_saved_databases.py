"""`db.save("x.gdb")` and `gd.connect("x.gdb")`: what was saved comes back, or an error says why."""

from __future__ import annotations

import datetime as dt
import io
import json
import os
import signal
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gdatalog as gd
from gdatalog.shell.cli import run
from gdatalog.storage import saved_folder
from tests.cases import cases
from tests.test_kinds import BOOLS, DATES, DURATIONS, NUMBERS, TEXTS, TIMES, cast, same

pytestmark = pytest.mark.filterwarnings("ignore::gdatalog.ProgramWarning")

SAMPLES: list[tuple[Any, list[Any]]] = [
    ([0, 1], [each for each in NUMBERS if "loat" not in str(each) and "doub" not in str(each)]),
    ([0.0, 1.5], ["float16", "float32", "Float32", "double[pyarrow]", object, "category"]),
    (["b", "ä\U0001f600"], TEXTS),
    ([True, False], BOOLS),
    (np.array(["2024-02-29T12:30", "1969-12-31T23:00"], "M8[s]"), TIMES),
    ([dt.date(9999, 12, 31), dt.date(1, 1, 1)], DATES),
    (np.array([3600, -86400], "m8[s]"), DURATIONS),
]
COLUMN: dict[str, st.SearchStrategy[Any]] = {
    "int": st.integers(-(2**63) + 1, 2**63 - 1) | st.integers(-3, 3),
    "float": st.floats(allow_nan=False),
    "symbol": st.text(st.characters(), max_size=3),
    "bool": st.booleans(),
    "timestamp": st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1)),
    "date": st.dates(),
    "duration": st.timedeltas(dt.timedelta(-9000), dt.timedelta(9000)),
}


def held(db: gd.Database) -> dict[str, Any]:
    return {
        name: (db[name].columns, db[name].dtypes, sorted(db[name].fetchall()))
        for name in db.relations
    }


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "x.gdb")


def test_every_dtype_comes_back(path: str) -> None:
    frames = {
        f"t{at}_{number}": pd.DataFrame({"x": cast(pd.Series(values), dtype)})
        for at, (values, dtypes) in enumerate(SAMPLES)
        for number, dtype in enumerate(dtypes)
    }
    more = {
        "p": pl.DataFrame({"c": pl.Series(["a", "b"], dtype=pl.Categorical), "i": [1, 2]}),
        "n": {"h": np.array([1, 2], "m8[h]"), "d": np.array(["2024-02-29"] * 2, "M8[D]")},
    }
    with gd.connect(device="cpu") as db:
        for name, frame in (frames | more).items():
            db[name] = frame
        db.save(path)
        with gd.connect(path, device="cpu") as other:
            assert list(other.relations) == list(db.relations)
            for name, frame in frames.items():
                same(other[name].df(), frame)
            for name in more:
                assert other[name].to_arrow().equals(db[name].to_arrow())
                assert other[name].df().dtypes.equals(db[name].df().dtypes)


@settings(max_examples=cases(24, 8), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_drawn_databases_come_back(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "drawn.gdb"  # each replaces the one before
    with gd.connect(device="cpu") as db:
        for number in range(data.draw(st.integers(0, 3))):
            kinds = data.draw(st.lists(st.sampled_from([*COLUMN]), max_size=3))
            columns = ", ".join(f"c{at}: {kind}" for at, kind in enumerate(kinds))
            db.run(f".decl r{number}({columns})", name=f"d{number}")
            row = st.tuples(*(COLUMN[kind] for kind in kinds))
            rows = data.draw(st.lists(row, max_size=4))
            if not kinds:
                db.run(f"r{number}()." if rows else "", name=f"f{number}")
            elif rows or data.draw(st.booleans()):
                db[f"r{number}"] = rows
        db.save(path)
        with gd.connect(path, device="cpu") as other:
            assert held(other) == held(db)
            assert os.listdir(tmp_path) == ["drawn.gdb"] and len(os.listdir(path)) == 2


def test_rules_facts_parameters_and_inputs_come_back(tmp_path: Path, monkeypatch: Any) -> None:
    program = tmp_path / "deep" / "program.dl"
    program.parent.mkdir()
    (program.parent / "more.dl").write_text('far(x, "nicht \\"so\\" weit") <- path(x, 4).\n')
    (program.parent / "e.csv").write_text("a,b\n3,4\n")
    (tmp_path / "g.facts").write_text("7\n")
    program.write_text(
        '.include "more.dl"\n.input E("e.csv")\n.decl g(x: int)\n.input g\n'
        "E(1, 2). path(x, z) <- E(x, z) ; path(x, y), E(y, z). nothing().\n"
    )
    monkeypatch.chdir(tmp_path)
    given = {
        "k": 2, "some": [1, 3], "name": "a\nb", "when": np.datetime64("2024-02-29T01", "ns"),
        "day": dt.date(2024, 2, 29), "wait": dt.timedelta(hours=3), "share": 0.1, "yes": True,
    }  # fmt: skip
    with gd.connect(device="cpu") as db:
        db.run_file("deep/program.dl")
        db.insert("E", [(2, 3)])
        db["left"] = [(1,)]
        rules = "big(x) <- E(x, _), x >= $k. few(x) <- E(x, _), x in $some."
        rules += " all($name, $when, $day, $wait, $share, $yes). broken(x) <- left(x)."
        db.run(rules, given, name="rules")
        del db["left"]
        db.save("x.gdb")
        before = {name: db[name].sorted().fetchall() for name in db.relations if name != "broken"}
        assert len(before["path"]) == 6 and before["g"] == [(7,)] and len(before["big"]) == 2
        monkeypatch.chdir("/")
        with gd.connect(tmp_path / "x.gdb", device="cpu") as other:
            assert other.workspace.statements() == db.workspace.statements()
            after = {name: other[name].sorted().fetchall() for name in before}
            assert after == before
            with pytest.raises(gd.Error, match="left"):
                other["broken"].fetchall()
            other.insert("E", [(4, 5)])  # views follow
            assert len(other["path"]) == 10
            other.run("big(1).", name="rules")  # replaces the text of that name
            assert other["big"].fetchall() == [(1,)]


def test_many_rows_keep_their_width_and_the_memory_limit(path: str) -> None:
    rng = np.random.default_rng(3)
    rows = {
        "a": rng.integers(0, 1000, 300_000).astype("int32"),
        "b": rng.integers(0, 2**40, 300_000),
        "s": np.array(["x", "y", "zz"], dtype=object)[rng.integers(0, 3, 300_000)],
    }
    with gd.connect(device="cpu") as db:
        db["t"] = rows
        db.save(path)
        count = len(db["t"])
        widths = [4, 8, 4]
        sizes = sorted(file.stat().st_size for file in Path(path).glob("data-*/c*.npy"))
        assert sizes == sorted(count * width + 128 for width in widths)
        query = "n(s, count(), sum(a), sum(b)) <- t(a, b, s)."
        with gd.connect(path, device="cpu", memory_limit="4MiB") as other:
            assert other.workspace.stored["t"].store.spilled
        with gd.connect(path, device="cpu") as other:
            assert sorted(other.query(query).fetchall()) == sorted(db.query(query).fetchall())


# ------------------------------------------------------------------------------------ killed


EVENTS = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree")


def save_and_die(db: gd.Database, path: str, at: int) -> bool:
    """Saves in another process, which is killed at its `at`-th call that changes files; whether it
    was."""
    child = os.fork()
    if child == 0:
        seen = [0]

        def hook(event: str, args: tuple[Any, ...]) -> None:
            if event in EVENTS:
                seen[0] += 1
                if seen[0] == at:
                    os.kill(os.getpid(), signal.SIGKILL)

        try:
            sys.addaudithook(hook)
            db.save(path)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


@pytest.mark.parametrize("step", [9, pytest.param(2, marks=pytest.mark.slow)])
def test_killed_while_it_saves(path: str, step: int) -> None:
    with gd.connect(device="cpu") as old, gd.connect(device="cpu") as new:
        for db, many in ((old, 1), (new, 4)):
            for number in range(many):
                db[f"r{number}"] = [(many, "text")]
            db.run("v(x) <- r0(x, _).")
        whole = {1: held(old), 4: held(new)}
        found, at = [], 1
        while save_and_die(new, path, at):  # nothing was there
            try:
                with gd.connect(path, device="cpu") as db:
                    assert held(db) == whole[4]
            except gd.DataError as error:
                assert "no such database" in str(error) or "did not end" in str(error)
            at += step
        assert at > 15
        old.save(path)
        at = 1
        while save_and_die(new, path, at):
            with gd.connect(path, device="cpu") as db:
                found.append(len(db.workspace.stored))
                assert held(db) == whole[found[-1]]
            old.save(path)
            assert len(os.listdir(path)) == 2  # what was left behind is gone
            at += step
        assert at > 15 and found == sorted(found) and {*found} <= {1, 4} and 1 in found
        if step == 2:
            assert {*found} == {1, 4} and len(found) > 10


def test_an_error_while_it_saves_leaves_the_old_one(path: str, monkeypatch: Any) -> None:
    def fails(self: Any) -> None:
        raise OSError(28, "No space left on device")

    with gd.connect(device="cpu") as db:
        db["E"] = [(1, 2)]
        with monkeypatch.context() as patched:
            patched.setattr(saved_folder.FolderWriter, "finish", fails)
            with pytest.raises(gd.DataError, match="No space left"):
                db.save(path)
            assert not os.path.exists(path)
            patched.undo()
            db.save(path)
            patched.setattr(saved_folder.FolderWriter, "finish", fails)
            before = sorted(os.listdir(path))
            db["E"] = [(3, 4)]
            with pytest.raises(gd.DataError, match="free some space"):
                db.save(path)
            assert sorted(os.listdir(path)) == before
        with gd.connect(path, device="cpu") as other:
            assert other["E"].fetchall() == [(1, 2)]


# ------------------------------------------------------------------------------------ errors


def refused(path: Any) -> str:
    with pytest.raises(gd.DataError) as caught:
        gd.connect(path, device="cpu")
    assert caught.value.hint
    return str(caught.value)


def revised(path: str, change: Any) -> None:
    """Changes a manifest, with the checksum that it then has."""
    file = Path(path, "manifest.json")
    said = json.loads(file.read_text())
    del said["sha256"]
    change(said)
    said["sha256"] = sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()
    file.write_text(json.dumps(said))


@pytest.fixture
def saved(path: str) -> str:
    with gd.connect(device="cpu") as db:
        db["E"] = [(1, "a", 0.5, True), (2, "b", 1.5, False)]
        db.run("p(x) <- E(x, _, _, _).")
        db.save(path)
    return path


def test_damage_is_noticed(saved: str) -> None:
    for file in [*Path(saved).glob("data-*/*"), Path(saved, "manifest.json")]:
        whole = file.read_bytes()
        for at in (0, len(whole) // 2, len(whole) - 2):
            file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            assert "damaged" in refused(saved), (file, at)
        file.write_bytes(whole[:-1])
        assert "damaged" in refused(saved)
        file.unlink()
        assert ("missing" if file.suffix == ".npy" else "did not end") in refused(saved)
        file.write_bytes(whole)
    with gd.connect(saved, device="cpu") as db:
        assert len(db["p"]) == 2


def test_manifests_that_no_save_wrote(saved: str) -> None:
    whole = Path(saved, "manifest.json").read_text()

    def told(change: Any) -> str:
        revised(saved, change)
        text = refused(saved)
        Path(saved, "manifest.json").write_text(whole)
        return text

    def of_e(**change: Any) -> Any:
        return lambda said: said["relations"]["E"].update(change)

    files = json.loads(whole)["relations"]["E"]["files"]
    newer = told(lambda said: said.update(format=99, gdatalog="9.1"))
    assert "in format 99" in newer and "open it with gdatalog 9.1 or a later version" in newer
    for change in (
        of_e(rows=3), of_e(rows=-1), of_e(types=["int", "symbol", "float", "money"]),
        of_e(types=["float", "symbol", "float", "bool"]), of_e(files=files[:2]),
        of_e(types=["symbol", "symbol", "float", "bool"]), of_e(files=None), of_e(kinds=[7]),
        lambda said: said.update(arrays="../../etc"), lambda said: said.update(texts=1),
        lambda said: said.pop("relations"), lambda said: said["files"].update({"../x.npy": {}}),
        lambda said: said["programs"][0].update(parts=[{"name": "r"}]),
        lambda said: said.update(relations=[]),
    ):  # fmt: skip
        assert "damaged" in told(change)


def test_the_first_format_is_still_read(saved: str) -> None:
    """Its relations have no nulls, and say nothing of them."""
    revised(saved, lambda said: said.update(format=1) or said["relations"]["E"].pop("nulls"))
    with gd.connect(saved, device="cpu") as db:
        assert sorted(db["E"].fetchall()) == [(1, "a", 0.5, True), (2, "b", 1.5, False)]
        assert sorted(db["p"].fetchall()) == [(1,), (2,)]


def test_what_is_no_database(tmp_path: Path) -> None:
    file, folder, empty = tmp_path / "file.gdb", tmp_path / "folder.gdb", tmp_path / "empty.gdb"
    file.write_text("text")
    folder.mkdir()
    (folder / "mine.txt").write_text("text")
    empty.mkdir()
    assert "there is no such database" in refused(tmp_path / "none.gdb")
    assert "no saved database" in refused(file) and "no saved database" in refused(folder)
    with gd.connect(device="cpu") as db:
        db["E"] = [(1, 2)]
        for path in (file, folder):
            with pytest.raises(gd.DataError, match="left as it is"):
                db.save(path)
        assert os.listdir(folder) == ["mine.txt"] and file.read_text() == "text"
        with pytest.raises(gd.UsageError, match=r"ends with \.gdb"):
            db.save(tmp_path / "E.csv")
        db.save(empty)
        with gd.connect(empty, untrusted=True) as other:
            assert other["E"].fetchall() == [(1, 2)]
        with saved_folder.locked(str(empty)), pytest.raises(gd.DataError, match="being saved"):
            db.save(empty)


def test_a_database_that_is_replaced_while_it_is_opened(saved: str, monkeypatch: Any) -> None:
    check, first = saved_folder.FolderReader._check, [True]

    def replacing(self: Any, *args: Any) -> None:
        if first.pop() if first else False:
            with gd.connect(device="cpu") as db:
                db["E"] = [(5, 6)]
                db.save(saved)
        check(self, *args)

    monkeypatch.setattr(saved_folder.FolderReader, "_check", replacing)
    with gd.connect(saved, device="cpu") as db:
        assert db["E"].fetchall() == [(5, 6)]


# ------------------------------------------------------------------------------ command line


def test_the_command_line_opens_databases(saved: str, tmp_path: Path, capsys: Any) -> None:
    assert run([saved, "--device=cpu", "-c", "p(x), x > 1"]) == 0
    assert capsys.readouterr().out == "x\n2\n"
    program = tmp_path / "a.dl"
    program.write_text("?- E(2, s, _, _).\n")
    assert run([str(program), f"{saved}/", "--device=cpu"]) == 0
    assert capsys.readouterr().out == "s\nb\n"
    assert run([saved, "other.gdb", "-c", "p(x)"]) == 2
    assert "one database can be opened, not 2" in capsys.readouterr().err
    assert run([str(tmp_path / "none.gdb"), "-c", "p(x)"]) == 1
    assert "there is no such database" in capsys.readouterr().err


def test_the_prompt_says_what_it_opened(saved: str, monkeypatch: Any, capsys: Any) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Terminal(".relations\n"))
    monkeypatch.setattr("builtins.input", lambda prompt: sys.stdin.readline())
    monkeypatch.setattr("gdatalog.shell.repl.can_edit", lambda: False)
    assert run([saved, "--device=cpu"]) == 0
    found = capsys.readouterr()
    assert f"{saved}: 2 rows of data, 1 statement; .save {saved} saves it again" in found.err
    assert found.out.startswith("E(")
