"""LLVM: translates functions to IR, compiles IR to object files, caches them, and loads them.

The only module that imports llvmlite. Helpers that other code calls are compiled once and linked by
address.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, Literal, NamedTuple

import llvmlite.binding as llvm

from gdatalog import distribution
from gdatalog.codegen import cache as code_cache
from gdatalog.codegen.llvm_numbers import entry, parameters, quoted, result_type
from gdatalog.codegen.llvm_statements import Body
from gdatalog.codegen.llvm_values import Early
from gdatalog.codegen.loop_language import CompileError, Function, LoopError
from gdatalog.codegen.types import TypedFunction, infer
from gdatalog.records import dataclass, field

Tier = Literal["light", "full"]

_lock = Lock()
_kept: list[Any] = []  # libraries are never freed: their functions may be running
_count = 0


@cache
def _ready() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


class Processor(NamedTuple):
    """What machine code depends on: the target, and the processor's name and features."""

    triple: str
    name: str
    features: str


@cache
def processor() -> Processor:
    """The processor that this process runs on."""
    _ready()
    features = llvm.get_host_cpu_features().flatten()
    return Processor(llvm.get_process_triple(), llvm.get_host_cpu_name(), features)


@cache
def version() -> str:
    return ".".join(map(str, llvm.llvm_version_info))


@cache  # a target machine takes milliseconds to make
def _target(level: int, of: Processor) -> Any:
    target = llvm.Target.from_triple(of.triple)
    # On x86, calls of helpers contain the full 64-bit address. A table of addresses would be in
    # another mapping than the code, and calls through it fail if that is 2 GiB away or more.
    x86 = of.triple.startswith("x86_64")
    return target.create_target_machine(
        cpu=of.name, features=of.features, opt=level,
        reloc="static" if x86 else "pic", codemodel="large" if x86 else "default", jit=True,
    )  # fmt: skip


@contextmanager
def _optimised(ir: str, tier: Tier, of: Processor) -> Iterator[tuple[Any, Any]]:
    """An optimised module and its target machine."""
    module = llvm.parse_assembly(ir)
    try:
        module.verify()
        machine = _target(0 if tier == "light" else 2, of)
        # Sets sizes and alignments, and the form of symbols: on macOS they begin with _.
        module.triple, module.data_layout = of.triple, str(machine.target_data)
        optimise(module, machine, tier)
        yield module, machine
    finally:
        module.close()


def object_of(ir: str, tier: Tier) -> bytes:
    """The object file of a module."""
    with _optimised(ir, tier, processor()) as (module, machine):
        return bytes(machine.emit_object(module))


def assembly_of(ir: str, tier: Tier, of: Processor | None = None) -> str:
    """The assembly of a module, for reading; also for another processor than this one."""
    if of is not None:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    with _optimised(ir, tier, of or processor()) as (module, machine):
        return str(machine.emit_assembly(module))


def optimise(module: Any, machine: Any, tier: Tier) -> None:
    """Runs a few of LLVM's passes. Its default pipeline takes six times as long, for loops that are
    at most 4% faster.

    `light` takes a third of the time of `full`, with fewer passes and the simplest instruction
    selection; its loops run at half the speed.
    """
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    passes.add_instruction_combine_pass()
    passes.add_loop_rotate_pass()
    if tier == "full":
        passes.add_new_gvn_pass()
        passes.add_simplify_cfg_pass()
    passes.add_global_dead_code_eliminate_pass()
    tuning = llvm.create_pipeline_tuning_options(speed_level=2)
    passes.run(module, llvm.create_pass_builder(machine, tuning))


@cache
def _linker() -> Any:
    _ready()
    return llvm.create_lljit_compiler(_target(2, processor()))


def linked(code: bytes, symbols: Sequence[str], helpers: Mapping[str, int]) -> list[int]:
    """Loads an object file into memory; returns the addresses of its symbols. `helpers`:
    addresses."""
    global _count
    library = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
    for symbol in symbols:
        library.export_symbol(symbol)
    for name, address in helpers.items():
        library.import_symbol(name, address)
    with _lock:
        _count += 1
        try:
            tracker = library.link(_linker(), f"library{_count}")
        except RuntimeError as problem:
            raise CompileError(f"{', '.join(symbols)} cannot be linked: {problem}") from problem
        _kept.append(tracker)
    return [int(tracker[symbol]) for symbol in symbols]


ENTRY = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)  # releases the GIL


# Modules of LLVM IR. Functions are translated in `llvm_statements.py`.
#
# A module contains the helpers that are inlined; other helpers are declared.


# A function's IR, the helpers that it calls, and the LLVM functions that it calls.
Translated = tuple[str, Sequence[TypedFunction], Set[str]]


@dataclass(slots=True)
class Module:
    """The functions of one module of LLVM IR. `parts`: helpers that are compiled separately."""

    texts: list[str] = field(default_factory=list)
    parts: dict[str, TypedFunction] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)
    declared: set[str] = field(default_factory=set)

    def add(self, translated: Translated) -> None:
        """Adds a function, and before it the helpers that it inlines."""
        text, helpers, declared = translated
        for typed in helpers:
            if typed.function.kind != "inlined":
                self.parts[typed.symbol] = typed
            elif typed.symbol not in self.done:
                self.done.add(typed.symbol)
                self.add(_inlined(typed.function, typed.given))
        self.declared |= declared
        self.texts.append(text)

    def text(self) -> str:
        calls = [
            f"declare {result_type(typed.result)} @{quoted(symbol)}({parameters(typed.given)})"
            for symbol, typed in self.parts.items()
        ]
        return "\n".join([*sorted(self.declared), *calls, "", *self.texts])


def module_of(function: Function, given: Sequence[str]) -> tuple[str, dict[str, TypedFunction]]:
    """The IR of a function that Python calls, and the helpers that it needs compiled.

    Its symbol is `entry`. It takes the address of an array of 64-bit words: an address and a length
    for each array, a value for each scalar.
    """
    typed, module = infer(function, tuple(given)), Module()
    module.add(_translated(typed, "define private {} {} nounwind", function.kind is None))
    module.texts.append(entry(typed))
    return module.text(), module.parts


def bundle_of(
    helpers: Mapping[str, TypedFunction], there: Callable[[str], int | None]
) -> tuple[str, dict[str, TypedFunction], dict[str, int]]:
    """Compiles helpers and those that they call into one module. Returns its IR, its helpers, and
    the addresses of other helpers that it calls, which `there` knows."""
    module = Module()
    made: dict[str, TypedFunction] = {}
    addresses: dict[str, int] = {}
    left = list(helpers.items())
    for symbol, typed in left:
        address = None if symbol in made else there(symbol)
        if address is not None:
            addresses[symbol] = address
        elif symbol not in made:
            made[symbol] = typed
            module.add(_translated(typed, "define {} {} nounwind"))
            left += module.parts.items()
    module.parts = {name: typed for name, typed in module.parts.items() if name not in made}
    return module.text(), made, {name: addresses[name] for name in module.parts}


def _translated(typed: TypedFunction, head: str, noalias: bool = False) -> Translated:
    slotted: frozenset[str] = frozenset()
    while True:
        body = Body(typed, slotted)
        try:
            return body.text(head, noalias), body.helpers, body.declared
        except Early as name:
            slotted |= {str(name)}


@cache
def _inlined(function: Function, given: tuple[str, ...]) -> Translated:
    return _translated(infer(function, given), "define private {} {} alwaysinline")


# Object files of functions and helpers: compiling, caching, loading.
HELPERS = Path(__file__).with_name("helpers")

_parts: dict[str, int] = {}  # addresses of helpers, by symbol


@cache
def surroundings() -> str:
    """A hash of everything that code depends on beside its source."""
    digest = hashlib.sha256()
    for folder in (HELPERS, HELPERS.parent):
        for path in sorted(folder.glob("*.py")):
            digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    versions = (distribution.VERSION, version(), *processor())
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
        _parts.update(zip(made, linked(code, [*made], addresses), strict=True))
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
        _parts.update(zip(made, linked(code, made, addresses), strict=True))
    return _parts.get(symbol)


def object_file(name: str, ir: str, tier: Tier) -> bytes:
    """A module's object file. If LLVM rejects it, the error names a file with its IR."""
    try:
        dump(name, ir, tier)
        return object_of(ir, tier)
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
        path.with_suffix(".s").write_text(assembly_of(ir, tier), encoding="utf-8")
