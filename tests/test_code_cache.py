"""The code cache: what is kept, and that nothing a disk does keeps a query from its answer."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import gdatalog as gd
from gdatalog.codegen import cache, function_names, machine, native, object_files
from gdatalog.codegen.loop_language import CompileError

HERE = Path(__file__).resolve().parent.parent

# A function that calls a helper, which is compiled apart.
SOURCE = '''"""p(n) <- range(n): the sum of powers below."""
from gdatalog.codegen.helpers.values import power


# one rule's loops
def loops(n: "i64", k: "i64"):
    total = 0
    for i in range(n):
        total += power(i, k)  # of i
    return total
'''
NAME = function_names.named("sum range(n)", SOURCE)
GIVEN, ANSWER = (9, 3), sum(i**3 for i in range(9))
PART = "values.power.i64.i64"

# Loads the function in a process of its own, and tells: the answer, how often LLVM was asked for
# code, and why it is not kept in the folder that was asked for.
LOAD = f"""
from gdatalog.codegen import cache, ir_modules, machine, native, object_files
made, object_of = [], machine.object_of
def counted(ir, tier):
    made.append(tier)
    return object_of(ir, tier)
machine.object_of = counted
found = native.load({NAME!r}, {SOURCE!r})
print(found{GIVEN}, len(made), cache.trouble(), sep="|")
"""
MADE, READ = [str(ANSWER), "2", "None"], [str(ANSWER), "0", "None"]


def start(where: Path, program: str = LOAD) -> subprocess.Popen[str]:
    env = {**os.environ, "PYTHONPATH": str(HERE), "GDATALOG_CACHE": str(where)}
    command = [sys.executable, "-c", program]
    return subprocess.Popen(command, env=env, text=True, stdout=-1, stderr=-1)


def ended(process: subprocess.Popen[str]) -> list[str]:
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, ""), err
    return out.strip().split("|")


def a_new_process(patch: pytest.MonkeyPatch) -> None:
    """Waits for what compiles, and forgets what a process remembers of compiled code."""
    native._waiting.join()
    patch.setattr(native, "_native", {})
    patch.setattr(native, "_rows", {})
    patch.setattr(native, "_asked", set())
    patch.setattr(object_files, "_parts", {})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of this process's own, empty."""
    monkeypatch.setenv("GDATALOG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_place", cache._CacheFolder())
    a_new_process(monkeypatch)
    return cache.folder()


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tiers of what LLVM is asked for."""
    found: list[str] = []
    object_of = machine.object_of

    def counted(ir: str, tier: machine.Tier) -> bytes:
        found.append(tier)
        return object_of(ir, tier)

    monkeypatch.setattr(machine, "object_of", counted)
    return found


def file_of(name: str) -> Path:
    return cache.folder() / f"{object_files.file_name(name)}.code"


# -------------------------------------------------------------------------------- what is kept


def test_another_process_reads_the_code(tmp_path: Path) -> None:
    """Also if both begin with an empty cache at the same time."""
    both = [start(tmp_path / "cache") for _ in range(2)]
    assert [ended(process)[::2] for process in both] == [MADE[::2]] * 2
    assert ended(start(tmp_path / "cache")) == READ
    kept = sorted(tmp_path.rglob("*.*"))
    assert [path.suffix for path in kept if path.is_file()] == [".code"] * 2
    (folder,) = (tmp_path / "cache").iterdir()
    assert folder.name == f"code-{gd.__version__}" and folder.stat().st_mode & 0o777 == 0o700


def test_what_is_loaded_again_is_read(
    folder: Path, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert native.load(NAME, SOURCE)(*GIVEN) == ANSWER
    assert sorted(made) == ["full", "light"]  # the helper, and what calls it
    assert native.load(NAME, SOURCE) is native.load(NAME, SOURCE)
    for _ in range(2):
        a_new_process(monkeypatch)
        found = native.load(NAME, SOURCE)
        assert (found(*GIVEN), found.given, found.result) == (ANSWER, ("i64", "i64"), "i64")
    assert len(made) == 2
    assert file_of(NAME).exists() and file_of(PART).exists()
    assert len(list(folder.iterdir())) == 2


def test_a_helper_is_compiled_once_for_all_modules(folder: Path, made: list[str]) -> None:
    native.load(NAME, SOURCE)
    other = SOURCE.replace("total = 0", "total = 1")
    assert native.load(function_names.named("other", other), other)(*GIVEN) == ANSWER + 1
    assert sorted(made) == ["full", "light", "light"]


def test_results_of_all_types_are_read_back(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = 'def loops(n: "i64", r: "f64"):\n    return n, r, n > 3, r * 2.0\n'
    for _ in range(2):
        assert native.load("p_several", source)(5, 0.25) == (5, 0.25, True, 0.5)
        a_new_process(monkeypatch)


def test_a_name_tells_what_it_is_and_changes_with_the_text() -> None:
    assert NAME.startswith("sum_range_n_") and NAME.isidentifier()
    assert function_names.named("sum range(n)", SOURCE + "\n") != NAME
    assert function_names.named("sum range(n)", SOURCE) == NAME
    long = function_names.named("3 " + "E(x,y), " * 100, SOURCE)
    assert long.isidentifier() and len(long) < 100
    assert len(object_files.file_name("entry." + "i64[]." * 90)) < 150


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        (
            '"""p(x) <- e(x, 1)."""\nx = 1  # x',
            '"""p(y) <- e(y, 22).\n\nMore.\n"""\nx = 1  # y',
            True,
        ),
        ("# one\n\nx = 1", "\nx = 1 # other", True),
        ("x = 1", "x = 2", False),
        ("x = 'a  # b'", "x = 'a  # c'", False),
        ("x = 'a', #b", "x = 'a', #c", True),
        ('x = """\n# b\n"""', 'x = """\n# c\n"""', False),
        ("x = 1\n    # b\n# c\ny = 2", "x = 1\n\ny = 2", True),
        ("if x:\n    y = 1  # a\n    z = 2", "if x:\n    y = 1\nz = 2", False),
    ],
)
def test_rules_that_differ_in_names_and_constants_share_code(
    one: str, other: str, alike: bool
) -> None:
    assert (function_names.named("p", one) == function_names.named("p", other)) == alike


def test_all_that_makes_code_is_part_of_a_files_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = []

    def note() -> None:
        object_files.surroundings.cache_clear()
        names.append(object_files.file_name("p"))

    helpers = tmp_path / "codegen" / "helpers"
    shutil.copytree(object_files.HELPERS.parent, tmp_path / "codegen")
    with monkeypatch.context() as patch:
        note()
        patch.setattr(object_files, "HELPERS", helpers)
        note()
        assert names[0] == names[1]
        for changed in (helpers / "lists.py", helpers.parent / "llvm.py"):
            with changed.open("a") as file:
                file.write("# changed\n")
            note()
        patch.setattr("gdatalog.distribution.VERSION", "77.0")
        note()
        patch.setattr(machine, "version", lambda: "99.1")
        note()
        triple, name, features = machine.processor()
        for other in (("arm", name, features), (triple, "other", features), (triple, name, "")):
            patch.setattr(machine, "processor", lambda found=other: found)
            note()
    object_files.surroundings.cache_clear()
    assert len(set(names)) == len(names) - 1


def test_a_function_is_made_once_however_many_threads_ask(folder: Path, made: list[str]) -> None:
    found = []

    def ask() -> None:
        found.append(native.load(NAME, SOURCE))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and len(set(map(id, found))) == 1 and len(made) == 2


# ------------------------------------------------------------------------------------- damage


def damaged(data: bytearray, harm: str) -> bytes:
    match harm:
        case "cut":
            return bytes(data[: len(data) // 2])
        case "short":
            return bytes(data[:20])
        case "empty":
            return b""
        case "zeroed":
            return bytes(len(data))
        case "no object":
            return b"\xff\x00" * 100
    data[{"a bit of the sum": 3, "a bit": len(data) * 2 // 3, "the last bit": -1}[harm]] ^= 0x10
    return bytes(data)


@pytest.mark.parametrize("name", [NAME, PART])
@pytest.mark.parametrize(
    "harm",
    ["cut", "short", "empty", "zeroed", "no object", "a bit of the sum", "a bit", "the last bit"],
)
def test_what_is_damaged_is_made_anew(
    folder: Path, made: list[str], monkeypatch: pytest.MonkeyPatch, name: str, harm: str
) -> None:
    native.load(NAME, SOURCE)
    path = file_of(name)
    whole = path.read_bytes()
    path.write_bytes(damaged(bytearray(whole), harm))
    assert cache.read(object_files.file_name(name)) is None
    made.clear()
    a_new_process(monkeypatch)
    assert native.load(NAME, SOURCE)(*GIVEN) == ANSWER
    # A helper that is made anew is not linked to code that was there: that is made anew, too.
    assert sorted(made) == (["light"] if name == NAME else ["full", "light"])
    assert path.read_bytes() == whole
    made.clear()
    a_new_process(monkeypatch)
    assert native.load(NAME, SOURCE)(*GIVEN) == ANSWER and not made


def test_a_file_under_another_name_is_no_code(
    folder: Path, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = SOURCE.replace("total = 0", "total = 1000")
    name = function_names.named("other", other)
    native.load(NAME, SOURCE)
    shutil.copy(file_of(NAME), file_of(name))
    assert native.load(name, other)(*GIVEN) == ANSWER + 1000
    assert sorted(made) == ["full", "light", "light"]


TOLD = {"given": ["i64", "i64"], "result": "i64", "parts": [PART], "tier": "light"}


@pytest.mark.parametrize(
    "told",
    [
        {**TOLD, "parts": []},  # what it calls is not linked
        {**TOLD, "parts": ["values.power.i64.f64"]},
        {**TOLD, "parts": None},
        {**TOLD, "parts": [3]},
        {key: value for key, value in TOLD.items() if key != "tier"},
        ["no", "object"],
        "nothing",
    ],
)
def test_code_that_is_whole_but_was_made_for_other_parts(
    folder: Path, made: list[str], monkeypatch: pytest.MonkeyPatch, told: Any
) -> None:
    native.load(NAME, SOURCE)
    data = cache.read(object_files.file_name(NAME))
    assert data is not None and json.loads(data.partition(b"\n")[0]) == TOLD
    code = data.partition(b"\n")[2]
    cache.keep(object_files.file_name(NAME), json.dumps(told).encode() + b"\n" + code)
    a_new_process(monkeypatch)
    assert native.load(NAME, SOURCE)(*GIVEN) == ANSWER
    assert made.count("light") == 2
    assert cache.read(object_files.file_name(NAME)) == data


@pytest.mark.parametrize("name", [NAME, PART])
@pytest.mark.parametrize("code", [b"", b"no object file", b"\x7fELF" + bytes(200)])
def test_what_is_whole_but_no_object_is_made_anew(
    folder: Path, made: list[str], monkeypatch: pytest.MonkeyPatch, name: str, code: bytes
) -> None:
    native.load(NAME, SOURCE)
    data = cache.read(object_files.file_name(name))
    assert data is not None
    cache.keep(object_files.file_name(name), data.partition(b"\n")[0] + b"\n" + code)
    a_new_process(monkeypatch)
    assert native.load(NAME, SOURCE)(*GIVEN) == ANSWER
    assert cache.read(object_files.file_name(name)) == data


# ----------------------------------------------------------------- what cannot be compiled


def test_a_module_that_llvm_refuses_is_told_with_its_ir(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(ir: str, tier: machine.Tier) -> bytes:
        raise RuntimeError("no such processor")

    with monkeypatch.context() as patch:
        patch.setattr(machine, "object_of", refuses)
        with pytest.raises(CompileError, match="no such processor") as found:
            native.load(NAME, SOURCE)
    path = Path(str(found.value).rpartition(" is in ")[2].rstrip(")"))
    assert NAME in str(found.value) and "@entry(ptr %words)" in path.read_text()
    path.unlink()
    assert not list(folder.iterdir())
    assert native.load(NAME, SOURCE)(*GIVEN) == ANSWER  # the next time, it is tried again


def test_a_helper_that_llvm_refuses_is_told_with_its_ir(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    object_of = machine.object_of

    def refuses(ir: str, tier: machine.Tier) -> bytes:
        return object_of(ir if "@entry(" in ir else ir.replace("mul i64", "mull i64"), tier)

    monkeypatch.setattr(machine, "object_of", refuses)
    with pytest.raises(CompileError, match=f"(?s){PART}: .*its LLVM IR is in (.*)\\)") as found:
        native.load(NAME, SOURCE)
    path = Path(str(found.value).rpartition(" is in ")[2].rstrip(")"))
    assert "define { i64" not in path.read_text() and "mul i64" in path.read_text()
    path.unlink()


def test_whatever_fails_while_compiling_is_a_compile_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*args: Any) -> Any:
        raise ImportError("half an installation")

    monkeypatch.setattr("gdatalog.codegen.ir_modules.module_of", fails)
    with pytest.raises(CompileError, match=f"{NAME}: ImportError: half an installation"):
        native.load(NAME, SOURCE)
