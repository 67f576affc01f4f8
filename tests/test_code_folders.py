"""Folders of the code cache: disks that refuse, folders of others, size and clearing."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import gdatalog as gd
from gdatalog.codegen import cache, function_names, native
from gdatalog.shell import doctor
from tests.test_code_cache import (
    ANSWER,
    GIVEN,
    LOAD,
    NAME,
    SOURCE,
    a_new_process,
    ended,
    folder,
    made,
    start,
)

__all__ = ["folder", "made"]  # fixtures


# ------------------------------------------------------------------------ disks that refuse


def told_trouble(folder: Path, made: list[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """That a query is answered from a temporary folder, which keeps code for this process."""
    assert native.load(NAME, SOURCE)(*GIVEN) == ANSWER
    a_new_process(monkeypatch)
    made.clear()
    assert native.load(NAME, SOURCE)(*GIVEN) == ANSWER
    assert cache.folder() != folder and cache.folder().name == f"code-{gd.__version__}"
    # What was kept before the disk was full is where this process looks no more.
    trouble = cache.trouble()
    assert trouble is not None
    found = doctor._code_cache(False)
    assert found.found == f"nothing is cached: {trouble}"
    assert found.cure is not None and "GDATALOG_CACHE" in found.cure
    shutil.rmtree(cache.folder().parent)
    return trouble


def test_a_file_in_place_of_the_folder(
    tmp_path: Path, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("mine")
    for where in (tmp_path / "file", tmp_path / "file" / "cache"):
        a_new_process(monkeypatch)
        monkeypatch.setenv("GDATALOG_CACHE", str(where))
        monkeypatch.setattr(cache, "_place", cache._CacheFolder())
        trouble = told_trouble(where, made, monkeypatch)
        assert "Not a directory" in trouble or "File exists" in trouble
        assert not made and (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("most", [0, 1])
def test_a_full_disk(
    folder: Path, made: list[str], monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """From the beginning, or once there are some files."""
    replace = os.replace

    def full(source: str, target: Any) -> None:
        if Path(target).parent == folder and len(list(folder.glob("*.code"))) >= most:
            raise OSError(errno.ENOSPC, "No space left on device", str(target))
        replace(source, target)

    monkeypatch.setattr(os, "replace", full)
    assert "No space left on device" in told_trouble(folder, made, monkeypatch)
    assert len(list(folder.iterdir())) == most


def test_nowhere_to_write_at_all(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And no folder is made for each file that cannot be kept."""
    there: list[str] = []

    def fails(*args: Any, **kwargs: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    mkdtemp = cache.tempfile.mkdtemp

    def noted(*args: Any, **kwargs: Any) -> str:
        there.append(mkdtemp(*args, **kwargs))
        return there[-1]

    with monkeypatch.context() as patch:
        patch.setattr("tempfile.mkstemp", fails)
        patch.setattr("tempfile.mkdtemp", noted)
        for number in range(5):
            text = SOURCE.replace("total = 0", f"total = {number}")
            assert native.load(function_names.named("p", text), text)(*GIVEN) == ANSWER + number
        assert len(there) == 1
        shutil.rmtree(there[0])
    with monkeypatch.context() as patch:
        a_new_process(patch)
        patch.setattr(cache, "_place", cache._CacheFolder())
        patch.setattr("tempfile.mkstemp", fails)
        patch.setattr("tempfile.mkdtemp", fails)
        assert native.load(NAME, SOURCE)(*GIVEN) == ANSWER
    assert not list(folder.iterdir())


def test_a_disk_that_cannot_be_read(
    folder: Path, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    native.load(NAME, SOURCE)
    a_new_process(monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr(cache, "open_own", lambda *_: (_ for _ in ()).throw(OSError("broken")))
        assert native.load(NAME, SOURCE)(*GIVEN) == ANSWER
    assert len(made) == 4


def test_a_temporary_folder_goes_with_its_process(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    where = "print(cache.folder(), cache.folder().exists(), sep='|')"
    *found, there = ended(start(tmp_path / "file" / "cache", LOAD + where))
    answer, count, rest = found
    trouble, path = rest.splitlines()
    assert (answer, count) == (str(ANSWER), "2") and "Not a directory" in trouble
    assert there == "True" and not Path(path).exists()


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="needs owners of files")
def test_a_folder_that_others_write_to(folder: Path, tmp_path: Path) -> None:
    parent = tmp_path / "shared"
    parent.mkdir()
    parent.chmod(0o777)
    with pytest.raises(PermissionError, match="shared can be changed by other users"):
        cache.own(parent / "code")
    parent.chmod(0o1777)  # as /tmp: each may make folders, but not change another's
    (parent / "code").chmod(0o755)
    assert cache.own(parent / "code").stat().st_mode & 0o777 == 0o700
    (parent / "link").symlink_to(tmp_path)
    with pytest.raises(PermissionError, match="link is no folder of this user"):
        cache.own(parent / "link")


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="needs owners of files")
@pytest.mark.parametrize("mode", [0o755, 0o1777])
def test_a_folder_in_one_of_another_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    """Its owner may rename what is in it, whatever the mode; so may root, who may do all."""
    parent, user = tmp_path / "theirs", os.getuid()
    code = cache.own(parent / "code")
    parent.chmod(mode)
    stat, owner = Path.stat, {}

    def owned(self: Path, **options: Any) -> os.stat_result:
        found = stat(self, **options)
        if self != parent:
            return found
        return os.stat_result((*found[:4], owner["of parent"], *found[5:10]))

    monkeypatch.setattr(Path, "stat", owned)
    for owner["of parent"] in (user, 0):
        assert cache.own(code) == code
    owner["of parent"] = user + 1
    with pytest.raises(PermissionError, match="theirs can be changed by other users"):
        cache.own(code)
    owner["of parent"] = 0
    monkeypatch.setattr(os, "getuid", lambda: user + 2)
    with pytest.raises(PermissionError, match="code is no folder of this user"):
        cache.own(code)


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="needs owners of files")
def test_code_is_not_read_from_a_folder_that_others_write_to(
    folder: Path, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    native.load(NAME, SOURCE)
    folder.parent.chmod(0o777)
    monkeypatch.setattr(cache, "_place", cache._CacheFolder())
    a_new_process(monkeypatch)
    made.clear()
    assert native.load(NAME, SOURCE)(*GIVEN) == ANSWER
    assert sorted(made) == ["full", "light"]
    assert "can be changed by other users" in told_trouble(folder, made, monkeypatch)
    assert not made


# -------------------------------------------------------------------------- size, and clearing


def fill(folder: Path, number: int, size: int = 1000, used: float = 1000.0) -> None:
    """A file that was used so many seconds after 1970."""
    path = folder / f"p{number}.code"
    path.write_bytes(bytes(size))
    os.utime(path, (used, used))


def kept(folder: Path) -> set[str]:
    return {path.stem for path in folder.glob("*.code")}


@pytest.mark.parametrize(("most", "value"), [("MOST_FILES", 10), ("MOST_BYTES", 10_999)])
def test_what_was_not_used_for_longest_goes(
    folder: Path, monkeypatch: pytest.MonkeyPatch, most: str, value: int
) -> None:
    monkeypatch.setattr(cache, most, value)
    for number in range(10):
        fill(folder, number, used=1000.0 + number)
    cache._let_go()
    assert kept(folder) == {f"p{number}" for number in range(10)}
    cache.keep("new", bytes(968))
    assert kept(folder) == {"new", *(f"p{number}" for number in range(3, 10))}


def test_a_process_looks_for_room_now_and_then(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[Path] = []
    monkeypatch.setattr(cache, "_let_go", lambda: looked.append(cache.folder()))
    for number in range(2 * cache._SELDOM + 1):
        cache.keep(f"p{number}", b"code")
    assert looked == [folder] * 3


def test_what_is_used_stays(folder: Path) -> None:
    cache.keep("p", b"code")
    path = folder / "p.code"
    os.utime(path, (1000.0, 1000.0))
    assert cache.read("p") == b"code" and path.stat().st_mtime > 1000.0 + cache.DAY
    recent = path.stat().st_mtime - cache.DAY / 2
    os.utime(path, (recent, recent))
    assert cache.read("p") == b"code" and path.stat().st_mtime == recent  # one write a day


def test_clearing_takes_all_versions_and_nothing_else(folder: Path) -> None:
    """An older version kept several files of a module, some of them in a folder of their own."""
    other = folder.parent / "code-0.0.1-cpython-39-numba-0.1"
    beside = other / "__pycache__"
    beside.mkdir(parents=True)
    for path in (other / "p.py", other / "p.sums", other / "parts.q", beside / "p.run-1.nbc"):
        path.write_bytes(bytes(1000))
    fill(folder, 1)
    fill(folder, 2)
    (folder / "p3.code.half").write_bytes(bytes(1000))  # of a process that was killed
    (folder.parent / "notes.txt").write_text("mine")
    assert cache.size() == cache.CacheSize(2, 7000)
    assert doctor._code_cache(False).found == f"2 modules, 6.8 KiB in {folder}"
    told = doctor._code_cache(True).found
    assert told == f"deleted 2 modules, 6.8 KiB; 0 modules, 0 B in {folder}"
    assert cache.size() == cache.CacheSize(0, 0)
    assert not other.exists() and folder.exists() and not list(folder.iterdir())
    assert (folder.parent / "notes.txt").read_text() == "mine"


def test_a_function_in_use_outlives_clearing(folder: Path, made: list[str]) -> None:
    found = native.load(NAME, SOURCE)
    assert cache.clear().modules == 2
    assert found(*GIVEN) == ANSWER and native.load(NAME, SOURCE) is found and len(made) == 2
