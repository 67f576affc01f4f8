"""Object files of functions and helpers: compiling, caching, loading.

Helpers that other code calls are compiled once and linked by address.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from gdatalog import distribution
from gdatalog.codegen import cache as code_cache
from gdatalog.codegen import machine
from gdatalog.codegen.ir_modules import bundle_of
from gdatalog.codegen.loop_language import CompileError, LoopError
from gdatalog.codegen.machine import Tier
from gdatalog.codegen.types import TypedFunction

HELPERS = Path(__file__).with_name("helpers")

_parts: dict[str, int] = {}  # addresses of helpers, by symbol


@cache
def surroundings() -> str:
    """A hash of everything that code depends on beside its source."""
    digest = hashlib.sha256()
    for folder in (HELPERS, HELPERS.parent):
        for path in sorted(folder.glob("*.py")):
            digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    versions = (distribution.VERSION, machine.version(), *machine.processor())
    digest.update(repr(versions).encode())
    return digest.hexdigest()[:20]


def read(name: str) -> tuple[bytes, Mapping[str, Any], Mapping[str, int]] | None:
    """The code of a function, its metadata, and the addresses of the helpers that it calls; None if
    any of it is missing."""
    data = code_cache.read(file_name(name))
    if data is None:
        return None
    line, _, code = data.partition(b"\n")
    addresses = {}
    try:
        metadata = json.loads(line)
        for symbol in metadata["parts"]:
            addresses[symbol] = _kept_part(symbol)
    except (ValueError, TypeError, KeyError):
        return None
    found = {symbol: address for symbol, address in addresses.items() if address is not None}
    return (code, metadata, found) if len(found) == len(addresses) else None


def parts(helpers: Mapping[str, TypedFunction]) -> dict[str, int]:
    """Loads helpers that other code calls; returns their addresses. Missing ones are compiled
    together, and the file of each contains all of them."""
    ir, made, addresses = bundle_of(helpers, _kept_part)
    if made:
        name = min(made) if len(made) == 1 else f"{min(made)}_and_{len(made) - 1}_more"
        seldom = all(typed.function.kind == "seldom" for typed in made.values())
        code = object_file(name, ir, "light" if seldom else "full")
        told = json.dumps({"parts": list(addresses), "made": list(made)}).encode()
        for symbol in made:
            code_cache.keep(file_name(symbol), told + b"\n" + code)
        _parts.update(zip(made, machine.linked(code, [*made], addresses), strict=True))
    return {symbol: _parts[symbol] for symbol in helpers}


def _kept_part(symbol: str) -> int | None:
    if symbol in _parts:
        return _parts[symbol]
    found = read(symbol)
    if found is None:
        return None
    code, told, addresses = found
    with suppress(LoopError, KeyError, TypeError):
        made = [each for each in told["made"] if each not in _parts]
        _parts.update(zip(made, machine.linked(code, made, addresses), strict=True))
    return _parts.get(symbol)


def object_file(name: str, ir: str, tier: Tier) -> bytes:
    """A module's object file. If LLVM rejects it, the error names a file with its IR."""
    try:
        dump(name, ir, tier)
        return machine.object_of(ir, tier)
    except Exception as problem:
        where = kept_ir(name, ir)
        raise CompileError(f"{name}: {problem} (its LLVM IR is in {where})") from problem


def file_name(name: str) -> str:
    """The name of a function's file."""
    if len(name) > 120:
        name = f"{name[:60]}.{hashlib.sha256(name.encode()).hexdigest()[:20]}"
    return f"{name.replace('[]', 'p')}.{surroundings()}"


def kept_ir(name: str, ir: str) -> str:
    """Writes the IR of a module that does not compile to a file; returns where."""
    try:
        handle, path = tempfile.mkstemp(prefix=f"gdatalog-{name[:40]}-", suffix=".ll")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(ir)
    except OSError as problem:
        return f"no file: {problem}"
    return path


def dump(name: str, ir: str, tier: Tier) -> None:
    """Writes a module's IR and assembly to the folder GDATALOG_DUMP, if it is set."""
    folder = os.environ.get("GDATALOG_DUMP")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        path = Path(folder, f"{name.replace('[]', 'p')[:120]}.ll")
        path.write_text(ir, encoding="utf-8")
        path.with_suffix(".s").write_text(machine.assembly_of(ir, tier), encoding="utf-8")
