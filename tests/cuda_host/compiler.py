"""g++, and what it has compiled: shared objects in a folder, by what they were made of.

The folder is of this process, or the one that GDATALOG_CUDA_HOST names: that one outlives it.
"""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import threading
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
GXX = os.environ.get("CXX", "g++")

# Kernels run a few thousand steps: compiling them is what takes time, so nothing is optimised.
# Frame pointers: fibers.cpp tells calls apart by them. The sanitizer's own library is left out,
# for it ends the process; fibers.cpp has what it would be asked for.
_KERNELS = [
    *("-std=c++17", "-O0", "-g1", "-fPIC", "-shared", "-nostdlib", "-DGD_HOST"),
    *("-fno-omit-frame-pointer", "-fno-exceptions", "-fno-rtti", "-fno-asynchronous-unwind-tables"),
    "-fstack-clash-protection",  # no frame is too large for the guard of a stack
    # A null pointer that is used ends with a signal, and so does one that lies far outside: their
    # checks would be a quarter of what compiling takes.
    *("-fsanitize=undefined", "-fno-sanitize=vptr,null,pointer-overflow"),
    "-fno-sanitize-recover=all",
    # Few warnings, and old ones: what another g++ would say of them is what this one says.
    *("-Werror=return-type", "-Werror=sign-compare", "-Werror=parentheses"),
    *("-Werror=narrowing", "-Werror=overflow"),
]
_RACES = ["-fsanitize=thread"]
# For those compilers that know it: variables that were never set are no zeros by chance.
_LITTER = "-ftrivial-auto-var-init=pattern"
_FIBERS = [
    *("-std=c++17", "-O2", "-fPIC", "-shared", "-DGD_HOST", "-fno-omit-frame-pointer"),
    *("-U_FORTIFY_SOURCE", "-Wall", "-Wextra"),
]


class CannotCompile(Exception):
    """What g++ said of a source."""


def available() -> bool:
    """Whether sources can be compiled here."""
    return shutil.which(GXX) is not None and os.uname().sysname == "Linux"


@cache
def _folder() -> Path:
    named = os.environ.get("GDATALOG_CUDA_HOST")
    if named:
        Path(named).mkdir(parents=True, exist_ok=True)
        return Path(named)
    made = tempfile.mkdtemp(prefix="gdatalog-cuda-host-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return Path(made)


# Threads that want the same source have it compiled once.
_one = threading.Lock()


def _compiled(name: str, text: str, options: list[str], of: list[Path]) -> Path:
    with _one:
        return _found_or_made(name, text, options, of)


def _found_or_made(name: str, text: str, options: list[str], of: list[Path]) -> Path:
    key = hashlib.sha256()
    for part in (text, *options, *(path.read_text(encoding="utf-8") for path in of)):
        key.update(part.encode() + b"\0")
    made = _folder() / f"{name}-{key.hexdigest()[:24]}.so"
    if made.exists():
        return made
    source = made.with_suffix(f".{os.getpid()}.cpp")
    source.write_text(text, encoding="utf-8")
    unfinished = made.with_suffix(f".{os.getpid()}.so")
    command = [GXX, *options, f"-I{HERE}", str(source), "-o", str(unfinished)]
    done = subprocess.run(command, capture_output=True, text=True)
    source.unlink()
    if done.returncode:
        raise CannotCompile(done.stderr)
    unfinished.replace(made)
    return made


@cache
def fibers() -> ctypes.CDLL:
    """fibers.cpp, whose functions the kernels' objects find when they are loaded."""
    path = HERE / "fibers.cpp"
    text = path.read_text(encoding="utf-8")
    made = _compiled("fibers", text, [*_FIBERS, "-ldl", "-lrt"], sorted(HERE.glob("*.hpp")))
    return ctypes.CDLL(str(made), mode=ctypes.RTLD_GLOBAL)


@cache
def _knows(option: str) -> bool:
    command = [GXX, option, "-x", "c++", "-fsyntax-only", os.devnull]
    return subprocess.run(command, capture_output=True).returncode == 0


def kernels(text: str, races: bool) -> Path:
    """A source of kernels, with host.hpp in front; `races`: it tells of each access of memory."""
    options = [*_KERNELS, *(_RACES if races else []), *([_LITTER] if _knows(_LITTER) else [])]
    return _compiled("kernels", text, options, [HERE / "host.hpp"])


# What a function's name has around it: its arguments, those of its template.
_NOT_NAME = re.compile(r"[<(].*")
_PLACE = re.compile(r"\{([^{}]+)\+(0x[0-9a-f]+)\}")


def with_places(message: str) -> str:
    """A message of fibers.cpp, whose places in compiled code become lines of the source."""

    def lines(run: re.Match[str]) -> str:
        found = []
        for path, offset in _PLACE.findall(run[0]):
            if Path(path).name.startswith("fibers-"):
                continue
            told = _line(path, offset)
            if told:
                found.append(told)
        return " < ".join(found)

    return re.sub(r"(\{[^{}]+\+0x[0-9a-f]+\})+", lines, message)


@cache
def _line(path: str, offset: str) -> str | None:
    """A function and a line of a source; None for one of host.hpp."""
    try:
        command = ["addr2line", "-f", "-C", "-e", path, offset]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return f"{Path(path).name}+{offset}"
    function, line = told.splitlines()[:2]
    file, _, number = line.rpartition(":")
    if Path(file).name == "host.hpp":
        return None
    return f"{_NOT_NAME.sub('', function).split()[-1]} (line {number.split()[0]})"
