"""LLVM: compiles IR to object code, and loads it.

The only module that imports llvmlite.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any, Literal, NamedTuple

import llvmlite.binding as llvm

from gdatalog.codegen.loop_language import CompileError

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
