"""NVIDIA's compiler takes all CUDA that there is, for two architectures, without a GPU."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

import nvrtc
import pytest
from kernel_sources import (
    Source,
    counted,
    files_of_kernels,
    files_of_tests,
    fused,
    generated,
    of_test_plans,
    recursion,
    tables,
    tiles,
)

from gdatalog.gpu_ops.compile_errors import compile_error
from gdatalog.gpu_ops.cupy_kernel import Resources
from gdatalog.gpu_ops.sources import whole

pytestmark = pytest.mark.skipif(
    nvrtc.library() is None, reason="needs NVRTC: pip install nvidia-cuda-nvrtc-cu12"
)

SPILLING = """
KERNEL(large)(ARRAY(i64) out, i64 at) {
    SHARED(i32, part, 50);
    i64 kept[100];
    for (int i = 0; i < 100; i++) kept[i] = out[i];
    part[thread_of_block()] = (i32)kept[at];
    block_sync();
    out[0] = part[at];
}
KERNEL(small)(ARRAY(i64) out) { out[0] = 1; }
"""


def _compiled(
    sources: Iterable[Source], architectures: Sequence[str] = nvrtc.ARCHITECTURES
) -> list[tuple[str, nvrtc.Compiled]]:
    """What was compiled, and shown."""
    shown = [
        (told, nvrtc.compile(source, architecture))
        for told, source in sources
        for architecture in architectures
    ]
    print("\n" + nvrtc.table(shown))
    for told, compiled in shown:
        assert compiled.cubin.startswith(b"\x7fELF")
        assert "warning" not in compiled.log, (told, compiled.log)
    return shown


@pytest.mark.slow
def test_every_kernel_compiles() -> None:
    _compiled(generated())
    _compiled(islice(recursion((32,)), 3), ["sm_90"])
    _keep_to_registers(_compiled(files_of_kernels()))
    # Levels that six blocks share a multiprocessor for are faster, measured, though some spill.
    _keep_to_registers(_compiled(fused()), 320)


def test_kernels_with_tables_of_counts_compile() -> None:
    sources = list(tables())
    assert any("= add_of_team<" in source for _, source in sources)
    assert any("add_common<" in source for _, source in sources)
    assert any("between(" in source.partition("KERNEL(walk_plan)")[2] for _, source in sources)
    _compiled(sources[:1], ["sm_80"])
    branches = {"branches, 0", "branches, cut, 0"}
    teams = {told for told, source in sources if "= add_of_team<" in source}
    compiled = _compiled(sources, ["sm_90"])
    _keep_to_registers([each for each in compiled if each[0] not in branches | teams])
    # Four teams share a multiprocessor's registers, though some spill.
    together = [each for each in compiled if each[0] in teams]
    _keep_to_registers(together, 1280)
    assert all(done.kernels["walk_plan"].registers <= 64 for _, done in together)
    # Counts without tables: eight blocks share a multiprocessor's registers, though some spill.
    bounded = [done.kernels["walk_plan"].registers for told, done in compiled if told in branches]
    assert len(bounded) == 2 and max(bounded) <= 64


@pytest.mark.slow
def test_every_kernel_of_the_tests_compiles() -> None:
    _keep_to_registers(_compiled((*files_of_tests(), *tiles()), ["sm_90"]))


def test_a_kernel_of_a_profile_compiles() -> None:
    _compiled(islice(counted(), 1), ["sm_90"])


@pytest.mark.slow
def test_every_kernel_of_profiles_compiles() -> None:
    assert len(_compiled(counted())) >= 12


@pytest.mark.slow
def test_every_kernel_of_recursive_rules_compiles() -> None:
    assert len(_compiled(recursion())) >= 30


@pytest.mark.slow
def test_every_kernel_of_the_test_plans_compiles() -> None:
    assert len(_compiled(of_test_plans())) >= 30


def _keep_to_registers(compiled: list[tuple[str, nvrtc.Compiled]], spilled: int = 0) -> None:
    """What is written by hand spills nothing, or no more than so many bytes."""
    for told, done in compiled:
        for name, took in done.kernels.items():
            assert took.spilled <= spilled, (told, name, done.architecture, took)


def test_there_is_something_to_compile() -> None:
    names = {told for told, _ in files_of_kernels()}
    assert {"prelude.cuh", "tile.cuh", "sums.cuh i32", "elementwise.cuh"} <= names
    assert {told for told, _ in files_of_tests()} >= {"tasks.cuh", "list_cases.cuh i64"}
    assert len(list(tiles())) == 6
    assert all(isinstance(told, str) and source for told, source in generated())


def test_what_a_kernel_takes() -> None:
    kernels = nvrtc.compile(whole('#include "prelude.cuh"\n' + SPILLING)).kernels
    assert list(kernels) == ["large", "small"]
    assert kernels["large"].spilled == 800 and kernels["large"].shared == 200
    assert 0 < kernels["small"].registers < 32
    assert kernels["small"] == Resources(kernels["small"].registers, 0, 0)


def test_sources_hold_no_header() -> None:
    with pytest.raises(nvrtc.CompileException, match="could not open source file"):
        nvrtc.compile("#include <cuda_fp16.h>\n")


# ------------------------------------------------------------------------------- compile errors


def _refused(source: str) -> str:
    with pytest.raises(nvrtc.CompileException) as caught:
        nvrtc.compile(source)
    return str(caught.value)


def test_an_error_shows_lines_and_rule() -> None:
    source = (
        'struct one;\nextern "C" __global__ void f(int* a) {\n  a[0] = two;\n}\ntypedef int b[c];\n'
    )
    error = compile_error(_refused(source), source, "p(x) <- E(x, _).")
    assert str(error) == (
        "device error: a kernel of `p(x) <- E(x, _).` does not compile\n"
        '  note: line 3: identifier "two" is undefined\n'
        "       1 | struct one;\n"
        '       2 | extern "C" __global__ void f(int* a) {\n'
        "    -> 3 |   a[0] = two;\n"
        "       4 | }\n"
        "       5 | typedef int b[c];\n"
        '  note: line 5: identifier "c" is undefined\n'
        "       3 |   a[0] = two;\n"
        "       4 | }\n"
        "    -> 5 | typedef int b[c];\n"
        "       6 | \n"
        "  hint: this is a mistake of gdatalog, please report it; "
        'device="cpu" answers meanwhile'
    )


def test_of_many_errors_the_first_are_shown() -> None:
    source = "".join(f"typedef int a{i}[b{i}];\n" for i in range(5))
    error = compile_error(_refused(source), source, "p")
    assert str(error).count("is undefined") == 3
    assert error.notes[-1].message == "and 2 errors more"


def test_what_is_of_no_line_is_shown_as_it_is() -> None:
    source = '__global__ void f() { asm volatile("no such thing;"); }'
    error = compile_error(_refused(source), source, "p")
    assert "does not compile\n  note: ptxas" in str(error) and "no such thing" not in error.hint
