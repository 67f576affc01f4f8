"""Generated modules: real files in the user's cache folder, which Numba keeps machine code beside.

What is on disk is never trusted to be whole. Beside a text stands a list of sums, of the text and
of Numba's files, written when they were complete; where a sum is wrong all are made anew.
Whatever the disk refuses, a query is answered: from a temporary folder, and if there is none,
without keeping anything.

A name is a code's for ever: it has a hash of the code, comments left out, and of the helpers that
it calls (Numba would not notice a changed helper). So two processes may write the files of a name
in any order. Comments are of the rule that came first; other rules, with other constants, have
the same code.

Above 300 lines for the sake of one place to look at: what is written, trusted and let go of.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from threading import Lock, RLock
from time import time
from types import ModuleType

from gdatalog.hands import Hand, end_process_at_once
from gdatalog.spent import spending
from gdatalog.watching import PATIENCE

MOST_BYTES, MOST_MODULES = 256 << 20, 2000
DAY = 86_400.0  # seconds

_HELPERS = Path(__file__).with_name("compiled")
_DOCSTRING = re.compile(r'\A"""(?:[^"\\]|"(?!""))*"""\s*')
# A # in a text of one line has its closing quote behind it.
_COMMENT = re.compile(r"""^#.*\n|[ ]*#[^"'\n]*$""", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z_]\w*")
_FOLDERS = "code-*-numba-*"
_PARTS, _SUM = "parts", 32  # what files of helpers begin with; bytes of a sum

_modules: dict[str, ModuleType] = {}
_making: dict[str, _Making] = {}
_lock, _one_at_a_time = RLock(), Lock()


@dataclass(slots=True)
class _Place:
    """Where this process keeps its modules. `trouble`: why not in the user's cache folder."""

    path: Path | None = None
    trouble: str | None = None


_place = _Place()


@dataclass(frozen=True, slots=True)
class Size:
    """How much is kept, of all versions of gdatalog, Python and Numba."""

    modules: int
    bytes: int


@lru_cache(512)
def versioned(shape: str, source: str) -> str:
    """The name of a generated text: something to read, and a hash of all that makes the code.

    >>> versioned("count E(x,y), E(y,z)", "...")[:18]
    'count_e_x_y_e_y_z_'
    >>> versioned("p", "#1\\nx = 1  # 1") == versioned("p", "#2\\nx = 1  # 2")
    True
    """
    told = re.sub(r"[^a-z0-9]+", "_", shape.lower()).strip("_")[:60].rstrip("_")
    digest = hashlib.sha256(_helpers() + _code(source).encode()).hexdigest()[:20]
    return f"{told}_{digest}" if told[:1].isalpha() else f"p_{told}_{digest}"


def _code(source: str) -> str:
    """A text without its docstring and comments, which are of one rule only."""
    code = _DOCSTRING.sub("", source)
    return code if '"""' in code or "'''" in code else _COMMENT.sub("", code)


@cache
def _helpers() -> bytes:
    """A hash of the functions that generated texts call."""
    digest = hashlib.sha256()
    for path in sorted(_HELPERS.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.digest()


def load(name: str, source: str, poll: Callable[[], None] = lambda: None) -> ModuleType:
    """The module of a generated text; its functions are compiled, or their code is read.

    The name is what `versioned` gives: what is kept under it is taken for the text's. While it
    is made `poll` is called, and may raise to end the waiting.
    """
    found = _modules.get(name)
    if found is not None:
        return found
    if _NAME.fullmatch(name) is None:
        raise ValueError(f"not a module's name: {name!r}")
    with _lock:
        if name in _modules:
            return _modules[name]
        making = _making.get(name)
        if making is None or making.ident is None:  # Ctrl-C came before that one began
            making = _making[name] = _Making(name, source)
            making.start()
            atexit.unregister(_end)
            atexit.register(_end)
    with spending("compiling"):
        while not making.wait(PATIENCE):
            poll()
    if making.error is not None:
        raise making.error
    return _modules[name]


class _Making(Hand):
    """Makes one module. Numba does not bear being interrupted, so it has a thread of its own,
    which ends what it began: the next to ask has the code. The end of the process does not wait
    for it."""

    def __init__(self, name: str, source: str) -> None:
        super().__init__(self._make, f"compiling {name}")
        self.module = name
        self.source = source
        self.error: BaseException | None = None

    def _make(self) -> None:
        try:
            with _one_at_a_time:
                _modules[self.module] = _made(self.module, self.source)
        except BaseException as error:
            self.error = error
        with _lock:
            _making.pop(self.module, None)


def _end() -> None:
    """Where the process ends while something is compiled, LLVM must not be taken down."""
    if _making:
        end_process_at_once()


def loaded(name: str) -> bool:
    """Whether a module can be used at once."""
    return name in _modules


def compiled(name: str) -> bool:
    """Whether machine code of a module is there: in memory, or on disk."""
    if name in _modules:
        return True
    try:
        return (folder() / f"{name}.sums").exists()
    except OSError:
        return False


def read_part(name: str) -> bytes | None:
    """What was kept of a helper that modules share, if it is whole."""
    try:
        data = (folder() / f"{_PARTS}.{name}").read_bytes()
    except OSError:
        return None
    kept = data[_SUM:]
    return kept if hashlib.sha256(kept).digest() == data[:_SUM] else None


def keep_part(name: str, data: bytes) -> None:
    """Keeps a helper, where there is room. Its name, too, is by `versioned`."""
    with contextlib.suppress(OSError):
        _write(folder() / f"{_PARTS}.{name}", hashlib.sha256(data).digest() + data)


def _made(name: str, source: str) -> ModuleType:
    """A module from its file; where the disk fails, from the next best place."""
    try:
        try:
            return _kept(folder(), name, source)
        except OSError as problem:
            return _kept(_elsewhere(problem), name, source)
    except OSError:
        # Numba keeps nothing of what has no file; the text says that it should.
        return _executed(name, source.replace("cache=True", "cache=False"), f"<{name}>")


def _kept(where: Path, name: str, source: str) -> ModuleType:
    path = where / f"{name}.py"
    text, before = _found(where, name)
    if text is None:
        text, before = source, _anew(where, name, source)
    try:
        module = _executed(name, text, str(path))
    except Exception as problem:
        if isinstance(problem, OSError) and not isinstance(problem, FileNotFoundError):
            raise  # the disk is full, or the like
        # Code that is whole, but not what this Numba reads; or another process cleared the
        # folder at this moment. If it is the text that is wrong, it fails again.
        before = _anew(where, name, source)
        module = _executed(name, source, str(path))
    sums = where / f"{name}.sums"
    if _stamps(where, name) != before:
        _write(sums, _sums(where, name).encode())
        _let_go(where.parent, keep=name)
    elif before and time() - sums.stat().st_mtime > DAY:
        os.utime(sums)  # its time says when the module was used last
    return module


def _executed(name: str, source: str, path: str) -> ModuleType:
    """Numba compiles, or reads its code, while this runs."""
    module = ModuleType(f"_gdatalog_{name}")  # Numba looks for it among the modules, by name
    module.__file__ = path
    code = compile(source, path, "exec")
    sys.modules[module.__name__] = module
    try:
        exec(code, module.__dict__)
    except BaseException:
        sys.modules.pop(module.__name__, None)
        raise
    return module


# ------------------------------------------------------------------------------------- files


def _write(path: Path, data: bytes) -> None:
    """All of a file or nothing of it, whoever else writes it too."""
    handle, made = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(made, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(made)
        raise


def _beside(where: Path) -> Path:
    """The folder that Numba keeps machine code in for modules of a folder."""
    told = os.environ.get("NUMBA_CACHE_DIR")
    if told:
        return Path(told) / f"{where.name}_{hashlib.sha1(str(where).encode()).hexdigest()}"
    return where / "__pycache__"


def _machine_code(where: Path, name: str) -> list[Path]:
    return sorted(path for path in _beside(where).glob(f"{name}.*") if path.suffix[:3] == ".nb")


def _stamps(where: Path, name: str) -> dict[Path, tuple[int, int]]:
    """What tells whether Numba has written since."""
    stamps = {}
    for path in _machine_code(where, name):
        with contextlib.suppress(FileNotFoundError):  # another process deleted it just now
            state = path.stat()
            stamps[path] = state.st_mtime_ns, state.st_size
    return stamps


def _sums(where: Path, name: str) -> str:
    lines = []
    for path in [where / f"{name}.py", *_machine_code(where, name)]:
        with contextlib.suppress(FileNotFoundError):
            lines.append(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n")
    return "".join(lines)


def _found(where: Path, name: str) -> tuple[str | None, dict[Path, tuple[int, int]]]:
    """A module's text, and the stamps of its machine code, if all of it is there and whole."""
    with contextlib.suppress(OSError, ValueError):  # there is none, or it is garbled
        if (where / f"{name}.sums").read_text() == _sums(where, name):
            return (where / f"{name}.py").read_text(encoding="utf-8"), _stamps(where, name)
    return None, {}


def _anew(where: Path, name: str, source: str) -> dict[Path, tuple[int, int]]:
    """Begins a module: its text, and no machine code."""
    _delete(_machine_code(where, name))
    _write(where / f"{name}.py", source.encode())
    return {}


def _delete(paths: list[Path]) -> int:
    """How many bytes went away."""
    freed = 0
    for path in paths:
        with contextlib.suppress(OSError):
            size = path.stat().st_size
            path.unlink()
            freed += size
    return freed


# ----------------------------------------------------------------------------------- folders


def folder() -> Path:
    """The folder of this process's modules. It is made if it is not there."""
    with _lock:
        if _place.path is None:
            try:
                _place.path = own(home() / _versions())
            except OSError as problem:
                _place.path = _elsewhere(problem)
        return _place.path


def trouble() -> str | None:
    """Why modules are in a temporary folder, if they are: nothing is kept after this process."""
    return _place.trouble


def home() -> Path:
    """The folder of all that is generated, for whichever device."""
    told = os.environ.get("GDATALOG_CACHE")
    if told:
        return Path(told).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_cache_dir("gdatalog"))


def _versions() -> str:
    """A folder's name, of all whose change makes what is in it useless."""
    ours = sys.modules["gdatalog"].__version__
    return f"code-{ours}-{sys.implementation.cache_tag}-numba-{_numba_version()}"


def _numba_version() -> str:
    """Without importing Numba, nor `importlib.metadata` where a look at a folder will do."""
    spec = find_spec("numba")
    if spec is not None and spec.origin is not None:
        found = list(Path(spec.origin).parents[1].glob("numba-*.dist-info"))
        if len(found) == 1:
            return found[0].stem.removeprefix("numba-")
    from importlib.metadata import version

    return version("numba")


def own(path: Path) -> Path:
    """The folder, which nobody else can write to, or put another in the place of: what is in it is
    executed. So its parent belongs to this user or to root, and others cannot rename what is in
    that."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    if hasattr(os, "getuid"):
        above, found = path.parent.stat(), path.lstat()
        user = os.getuid()
        shared = above.st_mode & 0o022 and not above.st_mode & stat.S_ISVTX
        if shared or above.st_uid not in (user, 0):
            raise PermissionError(f"{path.parent} can be changed by other users")
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != user:
            raise PermissionError(f"{path} is no folder of this user")
        path.chmod(0o700)
    tempfile.TemporaryFile(dir=path).close()
    return path


def _elsewhere(problem: OSError) -> Path:
    """A folder that goes when this process ends: what is made from now on goes there."""
    _place.trouble = " ".join(str(problem).split())
    root, process = tempfile.mkdtemp(prefix="gdatalog-"), os.getpid()

    def remove() -> None:
        if os.getpid() == process:  # not in a child that was forked
            shutil.rmtree(root, ignore_errors=True)

    atexit.register(remove)
    _place.path = own(Path(root) / _versions())
    return _place.path


def _groups(root: Path) -> Iterator[tuple[float, Path, str, list[Path]]]:
    """All modules that are kept: when used last, folder, name, files (left-overs too)."""
    for where in root.glob(_FOLDERS):
        files: dict[str, list[Path]] = {}
        for place in (where, _beside(where)):
            with contextlib.suppress(OSError):
                for entry in os.scandir(place):
                    if entry.is_file(follow_symlinks=False):
                        files.setdefault(entry.name.split(".")[0], []).append(Path(entry))
        for name, paths in files.items():
            sums = where / f"{name}.sums"
            used = sums if sums in paths else paths[0]
            with contextlib.suppress(OSError):
                yield used.stat().st_mtime, where, name, paths


def _bytes(paths: list[Path]) -> int:
    total = 0
    for path in paths:
        with contextlib.suppress(OSError):
            total += path.stat().st_size
    return total


def _let_go(root: Path, keep: str) -> None:
    """The modules that were not used for longest go, where there are too many of them."""
    found = sorted(_groups(root), key=lambda group: group[0])
    sizes = [_bytes(paths) for *_, paths in found]
    count, total = len(found), sum(sizes)
    if count <= MOST_MODULES and total <= MOST_BYTES:
        return
    for (_, _, name, paths), size in zip(found, sizes, strict=True):
        if count <= MOST_MODULES * 0.8 and total <= MOST_BYTES * 0.8:
            return
        if name != keep:
            _delete(paths)
            count, total = count - 1, total - size


def size() -> Size:
    """How much is kept now."""
    groups = list(_groups(folder().parent))
    return Size(len(groups), sum(_bytes(paths) for *_, paths in groups))


def clear() -> Size:
    """Deletes all that is kept, of all versions; tells how much it was.

    Modules in memory stay: queries that run now use them.
    """
    modules = freed = 0
    for _, _, _, paths in list(_groups(folder().parent)):
        freed += _delete(paths)
        modules += not any(path.exists() for path in paths)
    for where in folder().parent.glob(_FOLDERS):
        if where != folder():
            for path in (_beside(where), where):
                with contextlib.suppress(OSError):  # something else is in it
                    path.rmdir()
    return Size(modules, freed)
