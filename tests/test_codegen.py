"""The translator of printed loops: what it refuses, that its code does what Python does, targets.

Python itself defines what a text means; `drawn_loops` says how.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import gdatalog as gd
from gdatalog.codegen import function_names, ir_modules, machine, native, native_calls
from gdatalog.codegen.function_trees import Function, helper, printed
from gdatalog.codegen.helpers import (
    atomics,
    bit_rows,
    bits,
    group_sets,
    grouped_values,
    hash_tables,
    key_sets,
    lattice,
    lines,
    list_merges,
    lists,
    marks,
    numbered_groups,
    recoding,
    tallies,
    text_sets,
    values,
)
from gdatalog.codegen.loop_language import LoopError, kind_of
from gdatalog.codegen.types import infer
from tests import drawn_loops
from tests.cases import PROGRAMS
from tests.drawn_loops import Drawn
from tests.replay.programs import programs
from tests.replay.running import collect

# How many functions are drawn.
FUNCTIONS = PROGRAMS // 10
MODULES = (
    atomics, bit_rows, bits, group_sets, grouped_values, hash_tables, key_sets, lattice, lines,
    list_merges, lists, marks, numbered_groups, recoding, tallies, text_sets, values,
)  # fmt: skip

Tier = machine.Tier


def built(function: Function, given: Sequence[str], tier: Tier) -> native_calls.Native:
    """A function and all that it calls, compiled and linked, without a cache."""
    ir, parts = ir_modules.module_of(function, given)
    bundle, made, _ = ir_modules.bundle_of(parts, lambda symbol: None)
    its = dict(
        zip(made, machine.linked(machine.object_of(bundle, "full"), [*made], {}), strict=True)
    )
    (address,) = machine.linked(machine.object_of(ir, tier), ["entry"], its)
    result = infer(function, tuple(given)).result
    return native_calls.Native(function.name, machine.ENTRY(address), tuple(given), result, tier)


# ------------------------------------------------------------------------- what is refused

# What stands in a function of ints n, k, words u, v, floats r, s, and arrays; and what is told.
REFUSED = [
    ("x = n + u", "a signed and an unsigned number: n, u"),
    ("x = u\nx += n", "a signed and an unsigned number: x, n"),
    ("x = u if n else k", "a signed and an unsigned number"),
    ("x = u\nx = n", "a signed and an unsigned number"),
    ("x = min(u, n)", "a signed and an unsigned number"),
    ("x = u < n", "a signed and an unsigned number"),
    ("x = u + -1", "a negative number and u, -1"),
    ("x = u < -1", "a signed and an unsigned number"),
    ("x = n + 18446744073709551615", "a signed and an unsigned number"),
    ("x = 18446744073709551616", "18446744073709551616 has more than 64 bits"),
    ("words[0] = n", "a signed and an unsigned number"),
    ("keys[0] = u", "a signed and an unsigned number"),
    ("x = n == r", "an int and a float are compared"),
    ("keys[0] = r", "a float where i64 is wanted"),
    ("put(keys, 0, r)", "a float where i64 is wanted"),
    ("flags[0] = r", "a float where i64 is wanted"),
    ("x = keys[r]", r"i64\[\]\[f64\]"),
    ("for i in range(r):\n    pass", "a float where i64 is wanted"),
    ("x = n / k", "/ of i64 and i64: n, k"),
    ("x = r // s", "no such operation: FloorDiv of f64"),
    ("x = r % s", "no such operation: Mod of f64"),
    ("x = r & 1", "no such operation: BitAnd of f64"),
    ("x = ~r", "no such operation: Invert of f64"),
    ("x = n ** k", "no such operation: Pow of i64"),
    ("x = n @ k", "no such operation: MatMult of i64"),
    ("x = n is k", "no such comparison: Is of i64 and i64"),
    ("x = n in (1, 2)", "not in the language"),
    ("x = keys == keys", r"no such comparison: Eq of i64\[\] and i64\[\]"),
    ("x = keys + 1", r"i64\[\] is no i64"),
    ("x = keys\nx = values", r"i64\[\] and i32\[\] are assigned to one name"),
    ("x = keys\nx = 1", r"i64\[\] and i64 are assigned to one name"),
    ("x = put(keys, 0, 1)", "x is no name for void"),
    ("x = take(keys, 1, 1, 1)", "x is no name for"),
    ("x, y = n", "i64 is assigned to \\(?x, y"),
    ("x, y, z = take(keys, 1, 1, 1)", "is assigned to \\(?x, y, z"),
    ("x, y = 1, 2, 3", "assigned to \\(?x, y|not in the language"),
    ("x = take(keys, 1, 1, 1)[2]", "value 2 of"),
    ("x = unknown(n)", "unknown is no function of the language"),
    ("x = np.tan(r)", "np.tan is no function of the language"),
    ("x = sorted(keys)", "sorted is no function of the language"),
    ("x = n.bit_length()", ".bit_length is no function of the language"),
    ("x = nobody", "nothing is called nobody"),
    ("x = popcount(u, u)", r"popcount\(\) of 2 values"),
    ("x = at(keys)", r"at\(\) of 1 values"),
    ("x = at(n, 0)", r"at\(\) of i64"),
    ("x = n[0]", "n is no array"),
    ("x = len(n)", r"len\(\) of i64"),
    ("x = len(keys, keys)", r"len\(\) of 2 values"),
    ("x = min(n)", r"min\(\) of 1 values"),
    ("x = add(values, 0, 1)", r"add\(\) of i32\[\]: atomics are for i64\[\]"),
    ("x = take(keys, n)", "takes 4 arguments, not 2"),
    ("x = take(keys, 1, 1, grain=1)", "an argument by name|takes 4 arguments"),
    ("x = min(*keys)", "not in the language|values"),
    ("for i in keys:\n    pass", "no loop over a range: for i in keys"),
    ("for i in (1, 2):\n    pass", "no loop over a range"),
    ("for i, j in range(3):\n    pass", "no loop over a range"),
    ("for i in range(0, 8, 2):\n    pass", r"no loop over a range: range\(0, 8, 2\)"),
    ("for i in range(3):\n    pass\nelse:\n    pass", "no loop over a range"),
    ("while n:\n    pass\nelse:\n    pass", "a loop with an else"),
    ("x = [n]", "not in the language"),
    ("x = 'a'", "not in the language"),
    ("x = keys[1:2]", "not in the language|i64"),
    ("x = lambda: 1", "not in the language"),
    ("x = y = n", "not in the language"),
    ("x: int = n", "not in the language"),
    ("def inner():\n    pass", "not in the language"),
    ("with n:\n    pass", "not in the language"),
    ("try:\n    pass\nfinally:\n    pass", "not in the language"),
    ("del n", "not in the language"),
    ("global n", "not in the language"),
    ("if n:\n    return 1", "may end without a result"),
    ("while n:\n    return 1", "may end without a result"),
    ("if n:\n    return n\nreturn u", "a signed and an unsigned number"),
    ("if n:\n    return n\nreturn keys", "are assigned to one name"),
    ("if n:\n    return n\nreturn", "are assigned to one name"),
    ("if n:\n    return n, k\nreturn n", "are assigned to one name"),
]  # fmt: skip

FRAME = """
import numpy as np
from gdatalog.codegen.helpers import add, take
from gdatalog.codegen.helpers.bits import popcount
from gdatalog.codegen.helpers import at, put


def loops(n: "i64", k: "i64", u: "u64", v: "u64", r: "f64", s: "f64", keys: "i64[]",
          values: "i32[]", words: "u64[]", flags: "u8[]"):
    {}
"""


def framed(body: str) -> str:
    return FRAME.format(body.replace("\n", "\n    "))


def ir_of(source: str) -> str:
    function, types = printed(source)
    return ir_modules.module_of(function, tuple(types.values()))[0]


@pytest.mark.parametrize(("body", "told"), REFUSED)
def test_what_is_not_in_the_language_is_refused(body: str, told: str) -> None:
    with pytest.raises(LoopError, match=told):
        ir_of(framed(body))


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("x = 1", "a module has no such statement: x = 1"),
        ("import numpy as np", "a module without a function"),
        ("def loops(n): return n", "n: no type of the language"),
        ("def loops(n: int): return n", "n: int: no type of the language"),
        ('def loops(n: "i16[]"): return 1', r"n: 'i16\[\]': no type of the language"),
        ("class A: pass", "a module has no such statement"),
    ],
)
def test_modules_that_are_refused(source: str, told: str) -> None:
    with pytest.raises(LoopError, match=told):
        ir_of(source)


ALLOWED = [
    "x = u + 1", "x = 5\nx = u", "x = 3 * u < 7", "x = min(u, 0)", "x = u & 18446744073709551615",
    "words[0] = 0", "x = r + n", "x = r < 0", "x = n and u or r", "x = -9223372036854775808",
    "while True:\n    n += 1\n    if n > 9:\n        return n", "x = take(keys, 1, 1, 1)[1]",
    "if n:\n    return 1\nelse:\n    return 2", "x = 1\nx = 2.5", "x = True\nx = n",
    "given = (n, 2)\nx = given[1] + given[n]", "x = n if True or k else u < v",
    "while True:\n    return n\nx = 1",
]  # fmt: skip


@pytest.mark.parametrize("body", ALLOWED)
def test_what_is_allowed_compiles(body: str) -> None:
    assert machine.object_of(ir_of(framed(body)), "light")


def test_an_array_is_what_it_is_said_to_be() -> None:
    source = 'def loops(keys: "i64[]"):\n    return len(keys)\n'
    function, types = printed(source)
    run = built(function, tuple(types.values()), "light")
    assert run(np.arange(3)) == 3
    room = np.zeros(41, np.uint8)
    for wrong in (
        np.arange(3, dtype=np.int32), np.arange(6)[::2], np.zeros((2, 2), np.int64),
        np.arange(3, dtype=np.uint64), room[1:].view(np.int64), np.arange(3).astype(">i8"),
    ):  # fmt: skip
        with pytest.raises(TypeError, match=r"is no i64\[\]"):
            run(wrong)
    with pytest.raises(ValueError, match="argument"):
        run(np.arange(3), 1)


# ---------------------------------------------------------------------- as Python does it


@pytest.mark.parametrize("seed", range(FUNCTIONS))
def test_drawn_functions(seed: int, tmp_path: Path) -> None:
    drawn = Drawn(seed)
    module = drawn_loops.module_of(drawn.text, tmp_path, f"drawn_{seed}")
    given = tuple(drawn.given.values())
    tiers: tuple[Tier, ...] = ("light", "full")
    runs = [built(helper(module.loops), given, tier) for tier in tiers]
    for _ in range(12):
        args = drawn.arguments()
        first, *others = (
            [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args] for _ in range(3)
        )
        expected = drawn_loops.by_python(drawn.text, "loops", first)
        for run, its in zip(runs, others, strict=True):
            found = run(*its)
            assert found is expected is None or drawn_loops.alike(found, expected), drawn.text
            assert drawn_loops.same_arrays(its, first), drawn.text


def answered(body: str, *args: Any) -> Any:
    """What a function of ints n, k and an array gives, the same by both tiers and Python."""
    text = "from gdatalog.codegen.helpers import at, put\n"
    text += 'def loops(n: "i64", k: "i64", keys: "i64[]"):\n    ' + body.replace("\n", "\n    ")
    function, types = printed(text + "\n")
    copies = [[a.copy() if isinstance(a, np.ndarray) else a for a in args] for _ in range(3)]
    expected = drawn_loops.by_python(text, "loops", copies[0])
    for tier, its in zip(("light", "full"), copies[1:], strict=True):
        run = built(function, tuple(types.values()), tier)  # type: ignore[arg-type]
        assert drawn_loops.alike(run(*its), expected)
        assert drawn_loops.same_arrays(its, copies[0])
    return expected


def test_what_is_not_asked_for_is_not_read() -> None:
    """A chain of comparisons ends where one does not hold; the address would be nobody's."""
    keys = np.array([5, 6, 7])
    body = "return 0 <= n < len(keys) and 0 <= n < at(keys, n)"
    assert answered(body, 1 << 59, 0, keys) is False and answered(body, 2, 0, keys) is True
    body = "return 0 < k < keys[n] < 7"
    assert answered(body, 1 << 59, 0, keys) is False and answered(body, 1, 1, keys) is True
    body = "return keys[n] if n < 3 else k"
    assert answered(body, 1 << 59, 4, keys) == 4


def test_a_loop_is_over_what_its_range_was() -> None:
    keys = np.zeros(3, np.int64)
    body = "for i in range(n):\n    n = 0\n    k += i\n    i = 100\nreturn k, n"
    assert answered(body, 4, 1, keys) == (7, 0)
    body = "for i in range(3):\n    if i == 1:\n        continue\n    keys[i] = n\nreturn i"
    assert answered(body, 4, 1, keys) == 2


# --------------------------------------------------------------------------------- helpers

# Arguments of helpers that are no ints, and arrays that are no keys of 32 or 64 bits.
SPECIAL = {
    "marks": "u8[]", "places": "u8[]", "rows": "u64[]", "fresh": "bool[]", "control": "i64[]",
    "slots": "i64[]", "old": "i64[]", "index": "i32[]", "root_index": "i32[]", "starts": "i32[]",
    "seeds": "i64[]", "costs": "i64[]",
}  # fmt: skip
# What parameters of a module's helpers are, where it is not what others of that name are.
OF_MODULES = {
    "lattice": dict.fromkeys(
        ("best", "where", "touched", "origin", "heads", "link", "item", "queue", "stamps"), "i64[]"
    ),
    "numbered_groups": dict.fromkeys(("queue", "table", "codes", "wanted", "numbers"), "i64[]"),
    "hash_tables": {"keys": "i64[]"},
    "key_sets": {"keys": "i64[]"},
    "group_sets": {"taken": "i64[]"} | dict.fromkeys(("words", "filled"), "u64[]"),
    "grouped_values": dict.fromkeys(("places", "lower", "upper"), "i64[]")
    | dict.fromkeys(("both", "of_ones", "of_others"), "f64[]"),
    "atomics": {"marks": "i64[]"},
    "bits": {"words": "u64[]"},
    "bit_rows": dict.fromkeys(("dst", "a", "b"), "u64[]"),
    "text_sets": {"data": "u8[]", "text": "u8[]", "used": "bool[]"}
    | dict.fromkeys(("ends", "state"), "i64[]"),
    "lines": {"data": "u8[]", "text": "u8[]", "out": "u8[]", "state": "i64[]"},
}  # fmt: skip


def typings(module: ModuleType, function: Any) -> list[tuple[str, ...]]:
    """The types of arguments that printed loops call a helper with: keys have 32 or 64 bits."""
    its = SPECIAL | OF_MODULES.get(module.__name__.rpartition(".")[2], {})
    found = []
    for width in ("i32[]", "i64[]"):
        for other in ("i32[]", "i64[]"):
            given = []
            for name, parameter in inspect.signature(function).parameters.items():
                kind = str(parameter.annotation)
                if "Array" in kind:
                    keys = other if name in ("vb", "child_values") else width
                    given.append(its.get(name, keys))
                else:
                    given.append("u64" if "uint64" in kind else "f64" if "float" in kind else "i64")
            found.append(tuple(given))
    return list(dict.fromkeys(found))


HELPERS = [
    (module, name)
    for module in MODULES
    for name, function in vars(module).items()
    if kind_of(function) in ("part", "seldom", "inlined") and function.__module__ == module.__name__
]


@pytest.mark.parametrize(("module", "name"), HELPERS)
def test_every_helper_compiles_for_all_widths(module: ModuleType, name: str) -> None:
    function = helper(getattr(module, name))
    for given in typings(module, getattr(module, name)):
        assert machine.object_of(ir_modules.module_of(function, given)[0], "light")


# ---------------------------------------------------------------------- other processors

ARM = {
    "linux": machine.Processor("aarch64-unknown-linux-gnu", "generic", ""),
    "graviton": machine.Processor("aarch64-unknown-linux-gnu", "neoverse-n1", ""),
    "macos": machine.Processor("arm64-apple-macosx", "apple-m1", ""),
}
TIERS: tuple[Tier, ...] = ("light", "full")

# What an operation may be: one instruction where there is one, else a pair that is tried again.
PAIRS = ({"ldxr", "stxr"}, {"ldaxr", "stlxr"})
SWAP = ({"cas"}, *PAIRS)
SUM = ({"ldadd"}, *({"add", *pair} for pair in PAIRS))
OR = ({"ldset"}, *({"orr", *pair} for pair in PAIRS))
ATOMICS = [
    (atomics, "take", ("i64[]", "i64", "i64", "i64"), SWAP),
    (atomics, "mark_first", ("i64[]", "i64"), OR),
    (key_sets, "add_key", ("i64[]", "i64", "i64"), SWAP),
]


def instructions(text: str) -> set[str]:
    return set(re.findall(r"^\t([a-z][\w.]*)", text, re.M))


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("name", ARM)
@pytest.mark.parametrize(("module", "helped", "given", "wanted"), ATOMICS)
def test_atomics_on_arm(
    module: ModuleType, helped: str, given: tuple[str, ...], wanted: tuple[set[str], ...],
    name: str, tier: Tier,
) -> None:  # fmt: skip
    ir, _ = ir_modules.module_of(helper(getattr(module, helped)), given)
    text = machine.assembly_of(ir, tier, ARM[name])
    found = instructions(text)
    assert any(each <= found for each in wanted), text
    # A load is one instruction, of an address that is aligned; and nothing is called.
    assert re.search(r"\bldr\tx\d+, \[x", text)
    assert not re.search(r"\bbl\b.*(__aarch64_|__atomic_|__sync_)", text)
    assert bool(found & {"cas", "ldadd", "ldset"}) == (name != "linux")
    assert re.search(r"^_entry:" if name == "macos" else r"^entry:", text, re.M)


def test_an_atomic_sum_on_arm() -> None:
    source = "from gdatalog.codegen.helpers import add\n"
    source += 'def loops(control: "i64[]", n: "i64"):\n    return add(control, 0, n)\n'
    for processor in ARM.values():
        for tier in TIERS:
            found = instructions(machine.assembly_of(ir_of(source), tier, processor))
            assert any(each <= found for each in SUM), found


def printed_by(query: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts of the loops that a query runs."""
    texts: list[str] = []
    load = native.load

    def noted(name: str, source: str, *more: Any) -> Any:
        texts.append(source)
        return load(name, source, *more)

    monkeypatch.setattr(native, "load", noted)
    db = gd.connect(device="cpu")
    db["E"] = [(i, i * j % 60) for i in range(60) for j in range(1, 8)]
    db.query(query, strategy="lftj").fetchall()
    return texts


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("name", ARM)
def test_a_flag_is_read_in_each_turn_on_arm(name: str, tier: Tier) -> None:
    source = "from gdatalog.codegen.helpers import stopped\n"
    source += 'def loops(control: "i64[]", n: "i64"):\n    while not stopped(control):\n'
    source += "        n += 3\n    return n\n"
    text = machine.assembly_of(ir_of(source), tier, ARM[name])
    turn = r"^(\.?L\w+):[^:]*\bldr\t(x\d+), \[x\d+, #8\][^:]*\bcbz\t\2, \1$"
    assert re.search(turn, text, re.M), text


@pytest.mark.parametrize("name", ARM)
def test_printed_nests_on_arm(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (source,) = printed_by("p(x, count()) <- E(x, y), E(y, z), E(z, x).", monkeypatch)
    for tier in TIERS:
        text = machine.assembly_of(ir_of(source), tier, ARM[name])
        assert re.search(r"\bbl\t_?(\")?atomics\.take", text), text


def test_atomics_here() -> None:
    """Threads that add to one number lose nothing."""
    from threading import Thread

    source = "from gdatalog.codegen.helpers import add\n"
    source += 'def loops(control: "i64[]", n: "i64"):\n    for i in range(n):\n'
    source += "        add(control, 1, i)\n"
    function, types = printed(source)
    run, control = built(function, tuple(types.values()), "full"), np.zeros(2, np.int64)
    threads = [Thread(target=run, args=(control, 100_000)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert control.tolist() == [0, 4 * (100_000 * 99_999 // 2)]


# ------------------------------------------------------------------------------- to look at


def test_ir_and_assembly_are_kept_where_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GDATALOG_DUMP", str(tmp_path / "dumped"))
    monkeypatch.setenv("GDATALOG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(native.code_cache, "_place", native.code_cache._CacheFolder())
    source = f'def loops(n: "i64"):\n    return n + {os.getpid()}\n'
    name = function_names.named("dumped", source)
    assert native.load(name, source)(1) == 1 + os.getpid()
    ir = (tmp_path / "dumped" / f"{name}.ll").read_text()
    assert "define i64 @entry(ptr %words)" in ir
    assert "entry:" in (tmp_path / "dumped" / f"{name}.s").read_text()


# --------------------------------------------------------------------- what is printed


@pytest.mark.slow
def test_every_printed_module_is_in_the_language() -> None:
    """What queries/, the examples and some drawn programs print, in every form."""
    words = ["queries", "example", *(f"drawn: {kind}" for kind in ("recursion", "aggregate"))]
    texts = collect(programs(words), kernels=False, cuda=False)
    loops = {text for key, text in texts.items() if "/ loops:" in key and "def run(" in text}
    assert len(loops) > 300
    for text in loops:
        function, types = printed(text)
        ir_modules.module_of(function, tuple(types.values()))
