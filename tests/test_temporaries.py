"""What a killed process leaves beside its outputs is removed by the next one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gdatalog.storage import temporary_files
from gdatalog.storage.frames import table_from
from gdatalog.storage.parquet_folder import write_folder
from gdatalog.storage.temporary_files import beside
from gdatalog.storage.writers import write_table

TABLE = table_from([(1, 2)])
HOLDER = """
import sys, time
from gdatalog.storage.temporary_files import beside
from gdatalog.storage.writers import _new_file
import os
with beside(sys.argv[1], _new_file) as file, beside(sys.argv[1], os.mkdir) as folder:
    open(folder + "/part-00000.parquet", "w").close()
    print("ready", flush=True)
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def in_a_new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(temporary_files, "_swept", set())


def left(folder: Path) -> list[str]:
    return sorted(name for name in os.listdir(folder) if name.startswith(".gdatalog-"))


@pytest.mark.skipif(sys.platform == "win32", reason="files are not held there")
def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / ".gdatalog-notes.tmp").write_text("somebody's own")
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        assert len(left(tmp_path)) == 3
        write_table(TABLE, tmp_path / "a.csv")
        assert len(left(tmp_path)) == 3  # they are held
        process.send_signal(signal.SIGKILL)
    temporary_files._swept.clear()
    write_table(TABLE, tmp_path / "b.csv")
    assert left(tmp_path) == [".gdatalog-notes.tmp"]
    assert (tmp_path / "a.csv").read_text() == (tmp_path / "b.csv").read_text()


def test_nothing_is_left_after_an_error(tmp_path: Path) -> None:
    for make in (os.mkdir, lambda path: Path(path).write_text("x")):
        with pytest.raises(ZeroDivisionError), beside(str(tmp_path), make) as path:
            assert os.path.exists(path)
            raise ZeroDivisionError
    write_folder(tmp_path / "parts", [([TABLE], 1)])
    write_folder(tmp_path / "parts", [([TABLE], 1), ([TABLE], 1)])
    assert os.listdir(tmp_path) == ["parts"] and len(os.listdir(tmp_path / "parts")) == 2
