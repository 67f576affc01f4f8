"""How far a call is: what is told of it, to whom, and the line on a terminal."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from loading import read_table

import gdatalog as gd
from gdatalog import cancellation
from gdatalog.cancellation import Watch
from gdatalog.overhead import spending, time_spent
from gdatalog.progress import Progress
from gdatalog.shell.progress_line import ProgressLine
from gdatalog.storage import sorting
from gdatalog.storage.relation import Relation
from gdatalog.threads import Abandoned, CancellableThread
from tests.interpreted import interpreted

CHAIN = [(n, n + 1) for n in range(40)]
LINEAR = "path(x, z) <- E(x, z). path(x, z) <- path(x, y), E(y, z)."
ENDLESS = "n(0). n((x + 1) % 1000000007) <- n(x), n(0)."


@pytest.fixture
def every(monkeypatch: pytest.MonkeyPatch) -> None:
    """All is told, whatever time has passed since the last."""
    monkeypatch.setattr(cancellation, "EVERY", 0.0)


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few rows are many: what looks at them all works aside."""
    monkeypatch.setattr(cancellation, "LATE", 8)


@pytest.fixture
def seen_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits for work aside looks at it once at least, however fast it ends."""

    class Watched(CancellableThread):
        seen = False

        def wait(self, seconds: float | None = None) -> bool:
            first, self.seen = not self.seen, True
            return not first and super().wait(seconds)

    monkeypatch.setattr(cancellation, "CancellableThread", Watched)


@pytest.fixture
def db() -> Iterator[gd.Database]:
    with gd.connect(device="cpu", threads=1) as db:
        db["E"] = CHAIN
        yield db


# ------------------------------------------------------------------------------- what is told


def test_what_a_value_says() -> None:
    loading = Progress("loading", "E", 10, 40, "rows", seconds=2.0)
    assert (loading.share, loading.rate, loading.left) == (0.25, 5.0, 6.0)
    assert str(loading) == "loading E: 25 %, 10 of 40 rows, 6.0 s left"
    assert str(Progress("compiling", "p")) == "compiling p"
    assert str(Progress("joining", "p (rule 2 of 3)", 1, 3, "parts")) == "p (rule 2 of 3): 33 %"
    empty = Progress("writing", "E", 0, 0, "rows")
    assert empty.share == 1.0 and empty.left is None
    endless = Progress("loading", "E", 0, None)
    assert (endless.share, endless.rate, endless.left) == (None, None, None)
    assert str(endless) == "loading E"


def test_rows_of_all_the_work_do_not_stand_beside_the_share_that_is_done() -> None:
    loading = Progress("loading", "E", 39, 100, "bytes", new_rows=5_000_000)
    assert str(loading) == "loading E (5,000,000 rows): 39 %, 39 B of 100 B"
    assert str(Progress("sorting", "E", 39, 100, "parts", new_rows=7)) == "sorting E (7 rows): 39 %"
    assert str(Progress("sorting", "rows", new_rows=7)) == "sorting 7 rows"


def test_rounds_have_no_share() -> None:
    """Parts of a round are no parts of its rows."""
    watch = Watch()
    with watch.work("round", "path", unit="rows") as rounds:
        rounds.round, rounds.new_rows, rounds.done = 3, 1000, 25_000
        watch.part(3, 10)
        with rounds.within(0.2, 0.4):
            watch.part(1, 2)
        progress, told = watch.status()
        assert progress is not None and progress.share is None
        assert told[:2] == ["round 3", "1,000 new of 25,000 rows"]
        with watch.work("joining", "path (rule 2 of 3)"):
            watch.part(3, 10)
            assert watch.status()[1][-1] == "now rule 2 of 3 at 30 %"


@pytest.mark.usefixtures("every", "late")
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_of_several_files_their_bytes_are_told(tmp_path: Path, ending: str) -> None:
    """Neither the bytes nor the rows of one of them stand beside the share of all."""
    for number, length in enumerate((2000, 10, 500)):
        path, frame = tmp_path / f"{number}.{ending}", pd.DataFrame({"a": range(length)})
        frame.to_csv(path, index=False) if ending == "csv" else frame.to_parquet(path)
    sizes = [path.stat().st_size for path in sorted(tmp_path.iterdir())]
    loading: list[Progress] = []
    watch = Watch()
    with watch.call(loading.append), watch.work("loading", "E"):
        read_table(f"{tmp_path}/*.{ending}")
    assert loading and {(p.total, p.unit, p.new_rows) for p in loading} == {
        (sum(sizes), "bytes", None)
    }
    done = [p.done for p in loading]
    assert done == sorted(done)
    assert any(0 < p.done < sizes[0] for p in loading)
    assert any(sizes[0] < p.done < sizes[0] + sizes[1] for p in loading)


@pytest.mark.usefixtures("every")
def test_rounds(db: gd.Database) -> None:
    seen: list[Progress] = []
    db.query(LINEAR, strategy="levelwise", on_progress=seen.append)
    ends = [p for p in seen if p.stage == "round" and p.new_rows is not None]
    last: dict[int, Progress] = {p.round: p for p in ends if p.round is not None}
    told = [(number, p.new_rows, p.done) for number, p in last.items()]
    assert told[:3] == [(1, 39, 79), (2, 38, 117), (3, 37, 154)]
    assert told[-1] == (40, 0, 820)
    assert {(p.what, p.unit, p.total) for p in ends} == {("path", "rows", None)}
    joins = [p for p in seen if p.stage == "joining"]
    assert {p.what for p in joins} == {"path (rule 1 of 2)", "path (rule 2 of 2)"}
    assert all(p.round is None or 1 <= p.round <= 40 for p in joins)


@pytest.mark.usefixtures("every")
def test_a_join_in_chunks(db: gd.Database) -> None:
    db.workspace.chunk_rows = 10
    seen: list[Progress] = []
    text = "two(x, z) <- E(x, y), E(y, z)."
    assert len(db.query(text, strategy="levelwise", on_progress=seen.append)) == 39
    assert {(p.stage, p.what, p.unit) for p in seen} == {("joining", "two", "parts")} or all(
        p.what == "two" for p in seen
    )
    shares = [p.share for p in seen if p.stage == "joining" and p.share is not None]
    assert shares == sorted(shares) and len(set(shares)) >= 3 and shares[0] == 0.0


@pytest.mark.usefixtures("every")
def test_compiled_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gdatalog.executors.lftj.PATIENCE", 0.0005)
    db = gd.connect(device="cpu")
    db["E"] = [(x, y) for x in range(50) for y in range(50)]
    seen: list[Progress] = []
    with interpreted():  # slow enough to be asked on the way
        text = "n(count()) <- E(a, b), E(b, c), E(a, c)."
        assert len(db.query(text, strategy="lftj", on_progress=seen.append)) == 1
    shares = [p.share for p in seen if p.stage == "joining" and p.share is not None]
    assert shares and shares == sorted(shares) and shares[0] >= 0.0 and shares[-1] <= 1.0


@pytest.mark.usefixtures("every")
def test_a_compilation_is_told_of_when_it_begins(db: gd.Database, caplog: Any) -> None:
    seen: list[Progress] = []
    with caplog.at_level("INFO", "gdatalog"), interpreted(), pytest.MonkeyPatch.context() as patch:
        patch.setattr("gdatalog.codegen.native.loaded", lambda name: False)
        db.query("two(x, z) <- E(x, y), E(y, z).", strategy="lftj", on_progress=seen.append)
    compiling = [p for p in seen if p.stage == "compiling"]
    assert compiling and compiling[0].what == "two" and compiling[0].share is None
    assert caplog.messages == ["compiling two"]


@pytest.mark.usefixtures("every", "late", "seen_once")
def test_loading_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gdatalog.storage import delimited, file_bytes

    monkeypatch.setattr(file_bytes, "PIECE", 64)
    monkeypatch.setattr(delimited, "LONG", 64)
    monkeypatch.chdir(tmp_path)
    text = "src,dst\n" + "".join(f"{a},{b}\n" for a, b in CHAIN * 50)
    (tmp_path / "e.csv").write_text(text)
    seen: list[Progress] = []
    db = gd.connect(device="cpu")
    db.load("E", "e.csv", on_progress=seen.append)
    assert len(db["E"]) == 40 and seen
    assert {(p.stage, p.what) for p in seen} == {("loading", "E from e.csv")}
    assert {p.total for p in seen} <= {None, len(text)}
    done = [p.done for p in seen]
    assert done == sorted(done)


@pytest.mark.usefixtures("every")
def test_loading_rows(db: gd.Database) -> None:
    seen: list[Progress] = []
    db.load("F", np.arange(200).reshape(100, 2), on_progress=seen.append)
    assert [(p.stage, p.what, p.done, p.total, p.unit) for p in seen] == [
        ("loading", "F", 0, 100, "rows"),
        ("loading", "F", 50, 100, "rows"),
    ]
    db.insert("F", np.array([[1, 1]]), on_progress=seen.append)
    assert seen[-1].what == "F" and seen[-1].total == 1


@pytest.mark.usefixtures("every", "late", "seen_once")
def test_a_sort_is_told_of() -> None:
    rng = np.random.default_rng(1)
    db = gd.connect(device="cpu")
    db["E"] = rng.integers(0, 1 << 40, (40_000, 2))
    seen: list[Progress] = []
    db.query("?- E(x, y), E(y, x).", strategy="levelwise", on_progress=seen.append)
    sorts = [p for p in seen if p.stage == "sorting"]
    assert {(p.total, p.new_rows) for p in sorts if p.what == "E"} == {(None, 40_000)}
    assert "sorting E (40,000 rows)" in map(str, sorts)


@pytest.mark.usefixtures("every")
def test_who_else_tells(db: gd.Database, tmp_path: Path) -> None:
    program = tmp_path / "p.dl"
    program.write_text(f'{LINEAR} .output path("path.csv")')
    for call in (
        lambda told: db.run(f"{LINEAR} .output path(IO=stdout)", name="p", on_progress=told),
        lambda told: [db.run("", name="p"), db.run_file(program, on_progress=told)],
        lambda told: db.profile("?- path(x, y), x < y.", on_progress=told),
        lambda told: gd.query(LINEAR, {"E": CHAIN}, on_progress=told),
    ):
        seen: list[Progress] = []
        call(seen.append)
        assert any(p.what.startswith("path") for p in seen)
    assert (tmp_path / "path.csv").exists()


def test_what_is_quick_is_told_seldom(db: gd.Database) -> None:
    seen: list[Progress] = []
    began = time.perf_counter()
    db.query(LINEAR, strategy="levelwise", on_progress=seen.append)
    assert len(seen) <= 1 + (time.perf_counter() - began) / cancellation.EVERY


@pytest.mark.usefixtures("every")
def test_it_is_the_calling_thread_that_tells(db: gd.Database) -> None:
    threads: set[int] = set()
    db.query(LINEAR, on_progress=lambda _: threads.add(threading.get_ident()))
    assert threads == {threading.get_ident()}


@pytest.mark.usefixtures("every")
def test_who_is_told_may_ask(db: gd.Database) -> None:
    """A query within a query is not told of."""
    counts: list[int] = []
    told: list[Progress] = []

    def ask(progress: Progress) -> None:
        told.append(progress)
        counts.append(len(db.query("?- E(x, y).")))

    assert len(db.query(LINEAR, strategy="levelwise", on_progress=ask)) == 820
    assert set(counts) == {40} and {p.what for p in told if p.stage == "round"} == {"path"}


@pytest.mark.usefixtures("every", "late")
@pytest.mark.parametrize("error", [KeyError("mine"), ValueError("mine"), gd.Interrupted("mine")])
def test_who_is_told_may_stop_it(db: gd.Database, tmp_path: Path, error: Exception) -> None:
    (tmp_path / "e.csv").write_text("a,b\n1,2\n")

    def fail(progress: Progress) -> None:
        raise error

    for call in (
        lambda: db.query(LINEAR, on_progress=fail),
        lambda: db.run(ENDLESS + " .output n(IO=stdout)", on_progress=fail),
        lambda: db.load("E", np.arange(40).reshape(20, 2), on_progress=fail),
        lambda: db.profile(LINEAR, on_progress=fail),
    ):
        with pytest.raises(type(error), match="mine"):
            call()
    assert list(db.relations) == ["E"] and len(db["E"]) == 40
    assert len(db.query(LINEAR)) == 820
    assert not db.workspace.watch.works and db.workspace.watch.now is None


# ---------------------------------------------------------------------------------- the watch


def test_work_within_work() -> None:
    watch = Watch()
    with watch.call(), watch.work("round", "path", unit="rows") as rounds:
        rounds.round, rounds.new_rows = 7, 3
        with watch.work("joining", "path (rule 2 of 2)") as work:
            assert watch.now is not None
            assert (watch.now.round, watch.now.share) == (7, None)
            with work.within(0.5, 1.0):
                assert watch.now.share == 0.5
                with work.within(0.25, 0.75):
                    assert watch.now.share == 0.625
                work.share(0.5)
                assert watch.now.share == 0.75
            watch.part(3, 4)
            assert (watch.now.done, watch.now.total) == (3, 4)
            with watch.work("sorting"):
                assert watch.now.what == "path (rule 2 of 2)"
        rounds.at(1_204_332)
        assert watch.stopped().startswith("path, round 7, 1,204,332 rows so far, after 0.")
    assert watch.now is None


def test_work_aside_ends_when_nobody_waits() -> None:
    watch, ended = Watch(), threading.Event()
    begun = threading.Event()
    seen: list[bool] = []

    def work() -> None:
        own = cancellation.current_watch()
        begun.set()
        try:
            while True:
                own.poll()
                time.sleep(0.001)
        except Abandoned:
            ended.set()
            raise

    def stop() -> None:
        begun.wait(10)
        seen.append(watch.now is not None and watch.now.stage == "loading")
        watch.stop.set()

    threading.Thread(target=stop).start()
    stopped = pytest.raises(gd.Interrupted, match="loading E, after")
    with stopped, watch.call(), watch.work("loading", "E"):
        watch.aside(work)
    assert ended.wait(10) and seen == [True]


def test_what_work_aside_spends_is_spent_by_who_waits() -> None:
    def work() -> int:
        with spending("moving", 100):
            return 7

    before = time_spent()
    with spending("planning"):
        assert Watch().aside(work) == 7
    spent = time_spent() - before
    assert spent.moved == 100 and spent.moving > 0 and spent.planning > 0


def test_errors_of_work_aside_come_through() -> None:
    def work() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        Watch().aside(work)


# ----------------------------------------------------------------------------------- the line


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(screen: Screen, text: str) -> bool:
    until = time.monotonic() + 10
    while text not in screen.getvalue() and time.monotonic() < until:
        time.sleep(0.01)
    return text in screen.getvalue()


def test_a_compilation_is_shown_at_once_and_goes_away() -> None:
    screen, watch = Screen(), Watch()
    with ProgressLine(screen, watch, after=1e6)("p"):
        with watch.work("compiling", "p"):
            assert shown(screen, "\r\x1b[2Kcompiling p: 0.")
        assert shown(screen, " s\r\x1b[2K")  # too early for another line
        with watch.work("compiling", "q"):
            assert shown(screen, "compiling q")
    assert screen.getvalue().endswith("\r\x1b[2K")


def test_it_gives_way_to_what_was_shown_before() -> None:
    screen, watch = Screen(), Watch()
    with ProgressLine(screen, watch, after=0.0)("p"):
        with watch.work("compiling", "q"):
            assert shown(screen, "compiling q")
        assert shown(screen, "p: ")
    assert screen.getvalue().endswith("\r\x1b[2K")


def test_nothing_is_shown_in_a_file() -> None:
    file, watch = io.StringIO(), Watch()
    line = ProgressLine(file, watch, after=0.0)
    with line("p"), watch.work("compiling", "p"):
        assert line._thread is None
    assert file.getvalue() == ""


def test_the_text_of_the_line() -> None:
    watch = Watch()
    line = ProgressLine(Screen(), watch)
    with watch.work("round", "path", unit="rows") as rounds:
        rounds.round, rounds.new_rows, rounds.done = 3, 1000, 25000
        assert line.text(120).startswith("path: round 3, 1,000 new of 25,000 rows, ")
        with watch.work("joining", "path (rule 2 of 3)") as work:
            assert "now rule 2 of 3" in line.text(120)
            with work.within(0.25, 0.5):
                assert "now rule 2 of 3 at 25 %" in line.text(120)
            with watch.work("sorting", "path"):
                assert "now sorting path" in line.text(120)
    with watch.work("loading", "E from e.csv", 200, "bytes") as work:
        work.done = 100
        assert line.text(120).startswith(f"loading E from e.csv {'#' * 15}{'-' * 15} 50 %")
        assert "100 B of 200 B" in line.text(120)


@pytest.mark.parametrize("columns", [20, 40, 60, 80, 200])
def test_the_line_fits_the_terminal(columns: int) -> None:
    watch = Watch()
    line = ProgressLine(Screen(), watch)
    for what in ("E from a/long/way/to/a/file/of/edges.csv", "Zürich" * 20, "E"):
        with watch.work("loading", what, 10**9, "bytes") as work:
            work.done = 4 * 10**8
            assert len(line.text(columns)) < columns
            work.total = None
            assert len(line.text(columns)) < columns


@pytest.mark.usefixtures("every")
def test_who_listens_may_ask_while_something_runs_aside() -> None:
    watch, begun, go_on = Watch(), threading.Event(), threading.Event()
    now: list[Progress | None] = []

    def long() -> None:
        with cancellation.current_watch().work("sorting", "F"):
            begun.set()
            go_on.wait(30)

    def listen(progress: Progress) -> None:
        begun.wait(30)
        watch.aside(lambda: None)
        now.append(watch.now)
        go_on.set()

    with watch.call(listen), watch.work("joining", "p"):
        watch.aside(long)
    assert now[0] is not None and str(now[0]) == "sorting F"


def test_who_listens_may_ask_for_what_is_being_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sort holds a lock of the relation; what the listener asks must not wait for it."""
    monkeypatch.setattr(cancellation, "LATE", 1)
    monkeypatch.setattr(cancellation, "EVERY", 0.0)
    plain = sorting._sort_rows
    slept = threading.Event()

    def slowly(columns: Any) -> Any:
        slept.wait(0.1)
        return plain(columns)

    monkeypatch.setattr(sorting, "_sort_rows", slowly)
    asked: list[int] = []

    def ask(progress: gd.Progress) -> None:
        asked.append(relation.trie((0, 1)).total)

    many = np.random.default_rng(5).permutation(1 << 17)
    relation = Relation.of_blocks(("a", "b"), ("int", "int"), [(many, many)], len(many))
    watch = Watch()
    with watch.call(ask), watch.work("sorting", "E"):
        assert relation.keys[0][:3].tolist() == [0, 1, 2]
    assert asked and set(asked) == {1 << 17}
