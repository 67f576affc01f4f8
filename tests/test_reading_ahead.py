"""Files are read while rules run, and nobody sees a difference."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from threading import Event, current_thread

import pytest

from gdatalog.engine.facts import inputs, reading_ahead
from gdatalog.engine.facts.reading_ahead import LARGE, LONG, FileContent, FileReading, ReadingAhead
from gdatalog.shell.cli import run
from gdatalog.storage.load_options import Findings
from gdatalog.storage.relation import Relation

MADE = (Relation.empty(("x",), ("int",)), Findings())


def files(reads: dict[str, Callable[[], FileContent]], size: int = LARGE) -> list[FileReading]:
    return [FileReading((name,), name, size, read) for name, read in reads.items()]


def test_files_are_read_in_order_and_waited_for() -> None:
    begun, go, second = Event(), Event(), Event()

    def first() -> FileContent:
        begun.set()
        go.wait()
        return MADE

    def next_one() -> FileContent:
        second.set()
        return MADE

    ahead = ReadingAhead(files({"a": first, "b": next_one, "c": next_one}), lambda: 1 << 40)
    assert ahead.take(("a",)) is None  # nothing has begun: who asks reads it
    ahead = ReadingAhead(files({"a": first, "b": next_one, "c": next_one}), lambda: 1 << 40)
    ahead.after(LONG - 1)
    assert not begun.is_set()
    ahead.after(LONG)
    assert begun.wait(10)
    assert not second.is_set()
    go.set()
    assert ahead.take(("b",)) is MADE  # it waits until the thread has read it, behind a
    assert ahead.take(("a",)) is MADE
    assert ahead.take(("c",)) is MADE
    assert ahead.take(("d",)) is None
    ahead.stop()


def test_what_fails_there_is_left_to_who_asks() -> None:
    begun = Event()

    def fails() -> FileContent:
        begun.set()
        raise ValueError

    ahead = ReadingAhead(files({"a": fails}), lambda: 1 << 40)
    ahead.after(LONG)
    assert begun.wait(10)
    assert ahead.take(("a",)) is None


def test_a_file_without_room_is_left() -> None:
    read, last = Event(), Event()

    def mark() -> FileContent:
        read.set()
        return MADE

    def end() -> FileContent:
        last.set()
        return MADE

    spares = iter([4 * LARGE - 1, 1 << 40])
    ahead = ReadingAhead(files({"a": mark, "b": end}), lambda: next(spares))
    ahead.after(LONG)
    assert last.wait(10) and not read.is_set()
    assert ahead.take(("a",)) is None


def test_small_files_are_left_unless_one_is_large() -> None:
    read = Event()

    def mark() -> FileContent:
        read.set()
        return MADE

    small = files({"a": mark}, LARGE - 1)
    ahead = ReadingAhead(small, lambda: 1 << 40)
    ahead.after(LONG)
    assert ahead.take(("a",)) is None and not read.is_set()
    ahead = ReadingAhead([*small, *files({"b": mark})], lambda: 1 << 40)
    ahead.after(LONG)
    assert ahead.take(("a",)) is MADE


def test_nothing_is_begun_once_it_is_stopped() -> None:
    begun, go, second = Event(), Event(), Event()

    def first() -> FileContent:
        begun.set()
        go.wait()
        return MADE

    def next_one() -> FileContent:
        second.set()
        return MADE

    ahead = ReadingAhead(files({"a": first, "b": next_one}), lambda: 1 << 40)
    ahead.after(LONG)
    assert begun.wait(10)
    ahead.stop()
    go.set()
    assert not second.wait(0.05)


PROGRAM = """
.decl e(x: symbol, y: symbol)
.input e
.decl f(x: symbol, y: number)
.input f
.decl g(x: symbol)
.input g
.decl a(x: symbol, y: symbol)
.decl b(x: symbol, y: symbol, z: number)
.decl c(x: symbol)
.output b
.output c
a(x, y) :- e(x, y), x != y.
b(x, y, z) :- a(x, y), f(y, z).
c(x) :- g(x), a(x, _).
"""


def answers(folder: Path) -> dict[str, list[str]]:
    return {n: sorted((folder / f"{n}.csv").read_text().splitlines()) for n in "bc"}


def write(folder: Path) -> None:
    rng = random.Random(5)
    for name, kinds in {"e": "ss", "f": "si", "g": "s"}.items():
        rows = [
            "\t".join(
                f"t{rng.randrange(200)}" if k == "s" else str(rng.randrange(9)) for k in kinds
            )
            for _ in range(2000)
        ]
        (folder / f"{name}.facts").write_text("\n".join(rows) + "\n")
    (folder / "p.dl").write_text(PROGRAM)


@pytest.fixture
def aside(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The relations whose files a thread has read ahead."""
    monkeypatch.setattr(reading_ahead, "LARGE", 0)
    monkeypatch.setattr(reading_ahead, "LONG", 0)
    found: list[str] = []
    some = Event()
    after = ReadingAhead.after

    def waiting(self: ReadingAhead, size: int) -> None:
        after(self, size)
        assert not self._waiting or self._watch is None or some.wait(10)

    monkeypatch.setattr(ReadingAhead, "after", waiting)
    read_relation = inputs.read_relation

    def told(directive: object, name: str, *rest: object) -> object:
        if current_thread().name == "gdatalog":
            found.append(name)
            some.set()
        return read_relation(directive, name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(inputs, "read_relation", told)
    return found


def test_answers_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, aside: list[str]
) -> None:
    write(tmp_path)
    folders = ["-F", str(tmp_path), "-D", str(tmp_path), str(tmp_path / "p.dl")]
    assert run(folders) == 0
    found = answers(tmp_path)
    assert aside and set(aside) <= {"f", "g"}
    monkeypatch.setattr(reading_ahead, "LARGE", LARGE)
    aside.clear()
    assert run(folders) == 0
    assert answers(tmp_path) == found and all(found.values()) and not aside


def test_errors_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, aside: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    write(tmp_path)
    with (tmp_path / "f.facts").open("a") as file:
        file.write("t1\tnine\n")
    folders = ["-F", str(tmp_path), "-D", str(tmp_path), str(tmp_path / "p.dl")]
    assert run(folders) == 1
    told = capsys.readouterr().err
    assert "nine" in told and "f.facts" in told
    monkeypatch.setattr(reading_ahead, "LARGE", LARGE)
    assert run(folders) == 1
    assert capsys.readouterr().err == told
