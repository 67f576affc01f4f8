"""The code cache: what is kept, and that nothing a disk does keeps a query from its answer.

Numba runs in processes of their own, each with a cache folder of its test's.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import gdatalog as gd
from gdatalog.cpu_ops import code_cache
from gdatalog.shell import doctor

HERE = Path(__file__).resolve().parent.parent

SOURCE = """# p(n) <- range(n): the sum of what is below
from numba import njit


@njit("int64(int64)", cache=True)
def half(n):
    return n // 2


@njit("int64(int64)", cache=True, nogil=True)
def run(n):
    total = 0
    for i in range(n):
        total += i ^ half(i)
    return total
"""
NAME = code_cache.versioned("sum range(n)", SOURCE)
ANSWER = str(sum(i ^ i // 2 for i in range(9)))

# Loads the module, and tells: the answer, functions read from disk, whether there was code
# before, and why modules are not in the folder that was asked for.
LOAD = f"""
from gdatalog.cpu_ops import code_cache
before = code_cache.compiled({NAME!r})
module = code_cache.load({NAME!r}, {SOURCE!r})
hits = sum(sum(f.stats.cache_hits.values()) for f in (module.half, module.run))
print(module.run(9), hits, before, code_cache.trouble(), sep="|")
"""
MADE, READ = [ANSWER, "0", "False", "None"], [ANSWER, "2", "True", "None"]


def start(cache, program=LOAD, **variables):
    env = {key: value for key, value in os.environ.items() if key != "NUMBA_CACHE_DIR"}
    env |= {"PYTHONPATH": str(HERE), "GDATALOG_CACHE": str(cache), **variables}
    command = [sys.executable, "-c", program]
    return subprocess.Popen(command, env=env, text=True, stdout=-1, stderr=-1)


def ended(process):
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, ""), err
    return out.strip().split("|")


def run(cache, program=LOAD, **variables):
    return ended(start(cache, program, **variables))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A cache of this process's own, empty."""
    monkeypatch.setenv("GDATALOG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(code_cache, "_place", code_cache._Place())
    monkeypatch.setattr(code_cache, "_modules", {})
    return code_cache.folder()


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A cache with the module."""
    cache = tmp_path_factory.mktemp("filled") / "cache"
    assert run(cache) == MADE
    return cache


def files(cache):
    """All files of a cache but sums and texts: Numba's."""
    return sorted(path for path in cache.rglob("*.nb[ic]"))


# -------------------------------------------------------------------------------- what is kept


def test_another_process_reads_the_code(filled):
    assert run(filled) == READ
    assert (
        run(filled, LOAD.replace("# p(n)", "# another rule,\\n# with the same code: p(n)")) == READ
    )
    (text,) = filled.rglob("*.py")
    assert text.read_text() == SOURCE
    assert text.name.startswith("sum_range_n_") and text.parent.name.startswith("code-")
    assert text.parent.stat().st_mode & 0o777 == 0o700
    assert len(files(filled)) == 4


@pytest.mark.slow
def test_numba_may_keep_code_elsewhere(tmp_path):
    elsewhere = {"NUMBA_CACHE_DIR": str(tmp_path / "numba")}
    assert run(tmp_path / "cache", **elsewhere) == MADE
    assert len(files(tmp_path / "numba")) == 4 and not files(tmp_path / "cache")
    sizes = "size, gone = code_cache.size(), code_cache.clear()\n"
    found = run(tmp_path / "cache", LOAD + sizes + "print(size.modules, size == gone)", **elsewhere)
    assert found == [*READ[:3], "None\n1 True"] and not files(tmp_path / "numba")


def test_a_name_tells_what_it_is_and_changes_with_the_text():
    assert NAME.startswith("sum_range_n_") and NAME.isidentifier()
    assert code_cache.versioned("sum range(n)", SOURCE + "\n") != NAME
    assert code_cache.versioned("sum range(n)", SOURCE) == NAME
    long = code_cache.versioned("3 " + "E(x,y), " * 100, SOURCE)
    assert long.isidentifier() and len(long) < 100


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
def test_rules_that_differ_in_names_and_constants_share_code(one, other, alike):
    assert (code_cache.versioned("p", one) == code_cache.versioned("p", other)) == alike


def test_a_changed_helper_changes_the_name(tmp_path, monkeypatch):
    names = set()
    (tmp_path / "lists.py").write_text("def seek(): ...\n")
    with monkeypatch.context() as patch:
        patch.setattr(code_cache, "_HELPERS", tmp_path)
        for more in ("", "# changed\n"):
            with (tmp_path / "lists.py").open("a") as file:
                file.write(more)
            _a_new_process()
            names.add(code_cache.versioned("p", SOURCE))
    _a_new_process()
    assert len(names) == 2


def _a_new_process():
    """Forgets what is remembered of helpers: they do not change while a process runs."""
    code_cache._helpers.cache_clear()
    code_cache.versioned.cache_clear()


def test_a_module_is_made_once_however_many_threads_ask(folder):
    text = "made = []\n"
    found = []

    def ask():
        found.append(code_cache.load("p", text))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and len(set(map(id, found))) == 1
    assert code_cache.compiled("p") and not code_cache.compiled("q")


def test_names_that_leave_the_folder_are_refused(folder):
    with pytest.raises(ValueError, match="not a module's name"):
        code_cache.load("../p", "")


def test_an_error_in_the_text_is_told(folder):
    with pytest.raises(ZeroDivisionError):
        code_cache.load("p", "1 // 0\n")
    assert not code_cache.compiled("p")
    assert code_cache.load("p", "made = 1\n").made == 1


# ------------------------------------------------------------------------------------- damage


@pytest.mark.parametrize("suffix", ["*.nbi", "*.nbc", "*.sums", "*.py"])
@pytest.mark.parametrize("harm", ["cut", "empty", "garbled", "zeroed", "gone", "no text"])
def test_what_is_damaged_is_made_anew(filled, folder, suffix, harm):
    """Numba alone would fail on some of these, and run wrong code for others."""
    shutil.copytree(filled, folder.parent, dirs_exist_ok=True)
    assert code_cache._found(folder, NAME)[0] == SOURCE
    for path in folder.parent.rglob(suffix):
        data = bytearray(path.read_bytes())
        if harm == "cut":
            data = data[: len(data) // 2]
        elif harm == "empty":
            data.clear()
        elif harm == "garbled":
            data[len(data) * 2 // 3] ^= 0x55
        elif harm == "zeroed":
            data[:] = bytes(len(data))
        elif harm == "no text":
            data[:] = b"\xff\x00" * 100
        path.unlink() if harm == "gone" else path.write_bytes(data)
    assert code_cache._found(folder, NAME) == (None, {})


def test_after_damage_a_process_answers_and_mends(filled, tmp_path):
    cache = tmp_path / "cache"
    shutil.copytree(filled, cache)
    for pattern in ("*.half-*.nbi", "*.run-*.nbc"):
        (path,) = cache.rglob(pattern)
        path.write_bytes(path.read_bytes()[:100])
    (text,) = cache.rglob("*.py")
    text.write_text("raise SystemExit('not what was written')\n")
    assert run(cache) == [ANSWER, "0", "True", "None"]
    assert run(cache) == READ


def test_code_that_is_whole_but_not_numbas_is_made_anew(filled, tmp_path):
    """As from a Numba that was changed without a change of its version."""
    cache = tmp_path / "cache"
    shutil.copytree(filled, cache)
    for path in cache.rglob("*.nbi"):
        path.write_bytes(b"nothing to read")
    (sums,) = cache.rglob("*.sums")
    told = f"""
from pathlib import Path
from gdatalog.cpu_ops import code_cache
Path({str(sums)!r}).write_text(code_cache._sums(code_cache.folder(), {NAME!r}))
"""
    assert run(cache, told + LOAD) == [ANSWER, "0", "True", "None"]
    for path in files(cache):
        assert path.stat().st_size > 100


# ------------------------------------------------------------------------------------- helpers

# Compiles a caller of helpers, and tells: what it gives, how many helpers were read from disk.
HELPED = """
import numpy as np
from numba import njit
from gdatalog.cpu_ops.compiled import lists
@njit
def run(values, key):
    return lists.find(values, 0, len(values), key)
found = run(np.arange(0, 40, 2), 12)
print(found, sum(lists.find.stats.cache_hits.values()), sep="|")
"""


@pytest.mark.slow
def test_helpers_are_compiled_once_for_all_modules(tmp_path):
    assert run(tmp_path, HELPED) == ["6", "0"]
    kept = sorted(tmp_path.rglob("parts.find_*"))
    assert len(kept) == 1
    assert run(tmp_path, HELPED.replace("12", "13")) == ["-1", "1"]
    data = bytearray(kept[0].read_bytes())
    data[len(data) // 2] ^= 0x55
    kept[0].write_bytes(data)
    assert run(tmp_path, HELPED) == ["6", "0"]  # and it is kept again
    assert sorted(tmp_path.rglob("parts.find_*")) == kept
    assert bytes(data) != kept[0].read_bytes()


@pytest.mark.parametrize("data", [b"", b"short", b"\0" * 100])
def test_parts_that_are_not_whole_are_not_there(folder, data):
    code_cache.keep_part("p", b"what was kept")
    assert code_cache.read_part("p") == b"what was kept"
    (folder / "parts.p").write_bytes(data)
    assert code_cache.read_part("p") is None and code_cache.read_part("q") is None
    assert code_cache.clear().bytes == len(data)


# --------------------------------------------------------------------------- processes at once


@pytest.mark.slow
def test_two_processes_with_an_empty_cache(tmp_path):
    both = [start(tmp_path / "cache") for _ in range(2)]
    assert [ended(process)[0] for process in both] == [ANSWER, ANSWER]
    assert not list((tmp_path / "cache").rglob("*.tmp.*"))
    # If one wrote its sums while the other wrote its code, that code is made once more.
    assert run(tmp_path / "cache")[::3] == [ANSWER, "None"]


@pytest.mark.slow
def test_a_process_that_is_killed_leaves_nothing_that_harms(tmp_path):
    """At any moment of its compilation."""
    for wait in (0.4, 0.6, 0.8, 1.0, 1.2, 1.4):
        process = start(tmp_path / "cache")
        time.sleep(wait)
        process.kill()
        process.communicate()
    assert run(tmp_path / "cache")[::3] == [ANSWER, "None"]
    assert run(tmp_path / "cache") == READ


# ------------------------------------------------------------------------ disks that refuse


def told_trouble(found):
    answer, _, before, trouble = found
    assert (answer, before) == (ANSWER, "False")
    return trouble


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    where = "print(code_cache.folder(), code_cache.folder().exists(), sep='|')"
    *found, there = run(tmp_path / "file" / "cache", LOAD + where)
    trouble, path = told_trouble(found).splitlines()
    assert "Not a directory" in trouble
    assert there == "True" and not Path(path).exists()  # it went with its process


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="needs owners of files")
def test_a_folder_that_others_write_to(folder, tmp_path, monkeypatch):
    parent = tmp_path / "shared"
    parent.mkdir()
    parent.chmod(0o777)
    with pytest.raises(PermissionError, match="shared can be changed by other users"):
        code_cache.own(parent / "code")
    parent.chmod(0o1777)  # as /tmp: each may make folders, but not change another's
    (parent / "code").chmod(0o755)
    assert code_cache.own(parent / "code").stat().st_mode & 0o777 == 0o700
    (parent / "link").symlink_to(tmp_path)
    with pytest.raises(PermissionError, match="link is no folder of this user"):
        code_cache.own(parent / "link")


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="needs owners of files")
@pytest.mark.parametrize("mode", [0o755, 0o1777])
def test_a_folder_in_one_of_another_user(tmp_path, monkeypatch, mode):
    """Its owner may rename what is in it, whatever the mode; so may root, who may do all."""
    parent, user = tmp_path / "theirs", os.getuid()
    code = code_cache.own(parent / "code")
    parent.chmod(mode)
    stat, owner = Path.stat, {}

    def owned(self, **options):
        found = stat(self, **options)
        if self != parent:
            return found
        return os.stat_result((*found[:4], owner["of parent"], *found[5:10]))

    monkeypatch.setattr(Path, "stat", owned)
    for owner["of parent"] in (user, 0):
        assert code_cache.own(code) == code
    owner["of parent"] = user + 1
    with pytest.raises(PermissionError, match="theirs can be changed by other users"):
        code_cache.own(code)
    owner["of parent"] = 0
    monkeypatch.setattr(os, "getuid", lambda: user + 2)
    with pytest.raises(PermissionError, match="code is no folder of this user"):
        code_cache.own(code)


# Files of this process cannot be larger than so many bytes: what a full disk is like.
FULL = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, ({0}, {0}))
"""
# The disk of the cache is full, that of temporary files is not.
FULL_THERE = """
import errno, os, numba
replace = os.replace
def full(source, target):
    if {0!r} in str(target) and str(target).endswith(".nbc"):
        raise OSError(errno.ENOSPC, "No space left on device", target)
    replace(source, target)
os.replace = full
"""


def test_a_full_disk(tmp_path):
    found = run(tmp_path / "cache", FULL_THERE.format(str(tmp_path)) + LOAD)
    assert "No space left on device" in told_trouble(found)


def test_all_disks_full(tmp_path):
    pytest.importorskip("resource", reason="needs limits of processes")
    found = run(tmp_path / "cache", FULL.format(5000) + LOAD)  # there is room for the text
    assert "File too large" in told_trouble(found)


def test_nowhere_to_write_at_all(folder, monkeypatch):
    def fails(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.mkstemp", fails)
    monkeypatch.setattr("tempfile.mkdtemp", fails)
    text = "cache=True\nhere = __file__\n"
    module = code_cache.load("p", text)
    assert module.here == "<p>" and module.cache is False  # nothing keeps it
    assert code_cache.compiled("p") and not code_cache.compiled("q")


# -------------------------------------------------------------------------- size, and clearing


def fill(folder, number, size=1000, used=1000.0):
    """A module that was used so many seconds after 1970."""
    beside = folder / "__pycache__"
    beside.mkdir(parents=True, exist_ok=True)
    for path in (folder / f"p{number}.py", beside / f"p{number}.run-1.nbc"):
        path.write_bytes(bytes(size))
    sums = folder / f"p{number}.sums"
    sums.touch()
    os.utime(sums, (used, used))


def kept(folder):
    return {path.stem for path in folder.glob("*.sums")}


@pytest.mark.parametrize(("most", "value"), [("MOST_MODULES", 10), ("MOST_BYTES", 20_999)])
def test_what_was_not_used_for_longest_goes(folder, monkeypatch, most, value):
    monkeypatch.setattr(code_cache, most, value)
    for number in range(10):
        fill(folder, number, used=1000.0 + number)
    code_cache._let_go(folder.parent, keep="p9")
    assert kept(folder) == {f"p{number}" for number in range(10)}
    fill(folder, 10, used=500.0)  # new, and so kept
    code_cache._let_go(folder.parent, keep="p10")
    assert kept(folder) == {"p10", *(f"p{number}" for number in range(3, 10))}
    assert len(list((folder / "__pycache__").iterdir())) == 8


def test_clearing_takes_all_versions_and_nothing_else(folder):
    other = folder.parent / "code-0.0.1-cpython-39-numba-0.1"
    for number, where in enumerate([folder, folder, other]):
        fill(where, number)
    (folder.parent / "notes.txt").write_text("mine")
    assert code_cache.size() == code_cache.Size(3, 6000)
    assert doctor._code_cache(False).found == f"3 modules, 5.9 KiB in {folder}"
    told = gd.doctor(clear_cache=True).to_dict()["code cache"]
    assert told == f"cleared of 3 modules, 5.9 KiB; 0 modules, 0 B in {folder}"
    assert code_cache.size() == code_cache.Size(0, 0)
    assert not other.exists() and folder.exists()
    assert (folder.parent / "notes.txt").read_text() == "mine"


def test_a_module_in_use_outlives_clearing(tmp_path):
    program = LOAD + "code_cache.clear()\n"
    program += f"print(module.run(9), code_cache.load({NAME!r}, {SOURCE!r}) is module, sep='|')"
    assert run(tmp_path / "cache", program)[-2:] == [f"None\n{ANSWER}", "True"]
    assert not files(tmp_path)


# ---------------------------------------------------------------------------- the process's end

# A module that takes a minute to make: `poll` raises once that has begun.
LEAVE = f"""
import sys, threading, time
from gdatalog.cpu_ops import code_cache
begun = threading.Event()
def made(name, source):
    begun.set()
    time.sleep(300)
code_cache._made = made
def poll():
    if begun.is_set():
        raise TimeoutError
try:
    code_cache.load({NAME!r}, {SOURCE!r}, poll)
except TimeoutError:
    print("left")
"""


@pytest.mark.parametrize(
    ("last", "status"), [("", 0), ("sys.exit(3)", 3), ("raise SystemExit('no')", 1), ("1 / 0", 1)]
)
def test_the_process_ends_while_something_is_compiled(tmp_path, last, status):
    process = start(tmp_path / "cache", LEAVE + last)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (status, "left\n"), err
    assert err.splitlines()[-1:] == {"1 / 0": ["ZeroDivisionError: division by zero"]}.get(
        last, ["no"] if "no" in last else []
    )


# A query whose loops take LLVM many seconds, which gives up after some.
LONG = """
import os, sys, time, warnings
import gdatalog as gd
warnings.simplefilter("ignore")
db = gd.connect(device="cpu")
db.load("E", [(i, i * 7 % 50) for i in range(50)], columns=["a", "b"])
body = [f"E(x{i}, x{j})" for i in range(5) for j in range(i)]
body += [f"x{i % 5} * {i} % 7 != x{(i + 1) % 5}" for i in range(30)]
try:
    db.query(f"p(count()) <- {', '.join(body)}.", strategy="lftj", timeout=SECONDS)
except gd.TimeLimitError:
    print("left")
sys.exit(3)
"""


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [1.5, 2.5, 4, 6])
def test_the_process_ends_while_numba_compiles(tmp_path, seconds):
    process = start(tmp_path / "cache", LONG.replace("SECONDS", str(seconds)))
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out, err) == (3, "left\n", "")
    assert not list(tmp_path.rglob("*.sums"))  # nobody waited for the code
