"""Drawn functions of the loop language: texts, arguments, and how Python itself runs them.

Python runs a text with one change: each number becomes what it is in the language, an int of 64
bits that wraps, an unsigned word or a float; for Python's own ints do not wrap. Division by zero
and whatever else Python refuses to compute is given the meaning that `llvm_values.py` states.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

ARRAYS = {
    "i32[]": np.int32, "i64[]": np.int64, "u8[]": np.uint8, "i8[]": np.int8, "u32[]": np.uint32,
    "u64[]": np.uint64, "f64[]": np.float64, "bool[]": np.bool_,
}  # fmt: skip
SIZE = 8  # elements of each array
_WORDS = 1 << 64

INTS = (0, 1, -1, 2, -2, 3, 5, -7, 10, 63, 64, 255, 256, 2**31 - 1, -(2**31), 2**32, 2**53 + 1,
        2**62, 2**63 - 1, 2**63 - 2, -(2**63), -(2**63) + 1)  # fmt: skip
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.75, 1e-300, 5e-324, 1e300, -1.7976931348623157e308,
          2.0**53, 2.0**63, -(2.0**63), float("inf"), float("-inf"), float("nan"))  # fmt: skip

HEAD = """
import numpy as np

from gdatalog.codegen.helpers import add, compare_swap, load, set_bits, store
from gdatalog.codegen.helpers.bits import bit_length, popcount, trailing_zeros
from gdatalog.codegen.helpers import at, put
from gdatalog.codegen.helpers.values import minus, plus, times, truncate
from gdatalog.codegen.loop_language import inlined, part

LIMIT = 1000
MASK = np.uint64(0xFFFF_0000_FFFF_0001)
HALF = 0.5
"""


# ----------------------------------------------------------------------------- as Python runs them


def number(value: Any) -> Any:
    """What a number is in the language."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.signedinteger, np.uint8, np.uint32)):
        return (int(value) + _WORDS // 2) % _WORDS - _WORDS // 2
    return np.float64(value) if isinstance(value, float) else value


def _divided(rest: bool, a: Any, b: Any) -> Any:
    if b == 0:
        return a * 0
    return number(a % b if rest else a // b)


def _word(value: Any) -> Any:
    return np.uint64(int(value) % _WORDS)


def _same_bits(value: Any) -> Any:
    return np.int64(value).view(np.float64)


def _put(array: Array, index: Any, value: Any) -> None:
    if array.dtype.kind in "iu" and array.dtype != np.uint64:
        value = np.int64(value).astype(array.dtype)
    array[index] = value


class _Numbers(ast.NodeTransformer):
    """Wraps what makes numbers."""

    def _wrapped(self, node: Any) -> Any:
        self.generic_visit(node)
        return ast.Call(ast.Name("_number", ast.Load()), [node], [])

    visit_UnaryOp = visit_Compare = visit_Call = visit_Constant = _wrapped

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        self.generic_visit(node)
        return ast.Call(ast.Name("bool", ast.Load()), [node], [])

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        return self._wrapped(node) if isinstance(node.ctx, ast.Load) else self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        self.generic_visit(node)
        if isinstance(node.op, (ast.FloorDiv, ast.Mod)):
            rest = ast.Constant(isinstance(node.op, ast.Mod))
            return ast.Call(ast.Name("_divided", ast.Load()), [rest, node.left, node.right], [])
        return ast.Call(ast.Name("_number", ast.Load()), [node], [])

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        read = ast.parse(ast.unparse(node.target), mode="eval").body
        return self.visit(ast.Assign([node.target], ast.BinOp(read, node.op, node.value)))

    def visit_Assign(self, node: ast.Assign) -> Any:
        self.generic_visit(node)
        (target,) = node.targets
        if isinstance(target, ast.Subscript):
            args = [target.value, target.slice, node.value]
            return ast.Expr(ast.Call(ast.Name("_put", ast.Load()), args, []))
        return node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> Any:
        return node


class _NamesOfCalls(ast.NodeTransformer):
    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        match node.func:
            case ast.Attribute(attr="uint64"):
                node.func = ast.Name("_word", ast.Load())
            case ast.Attribute(attr="view", value=inner):
                return ast.Call(ast.Name("_same_bits", ast.Load()), [inner], [])
        return node


def by_python(text: str, name: str, args: list[Any]) -> Any:
    """What Python finds; the arrays among the arguments are changed."""
    tree = _Numbers().visit(_NamesOfCalls().visit(ast.parse(text)))
    world = {"_number": number, "_divided": _divided, "_word": _word, "_put": _put}
    world["_same_bits"] = _same_bits
    exec(compile(ast.fix_missing_locations(tree), "<drawn>", "exec"), world)
    with np.errstate(all="ignore"):
        return world[name](*(arg if isinstance(arg, np.ndarray) else number(arg) for arg in args))


def module_of(text: str, folder: Path, name: str) -> ModuleType:
    """A module with a text, for its helpers are read from a file."""
    path = folder / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def alike(one: Any, other: Any) -> bool:
    """Whether two results are the same to the bit; all NaN are."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, float) or isinstance(other, float):
        both = np.array([one, other], dtype=np.float64)
        return bool(np.isnan(both).all()) or both[0].tobytes() == both[1].tobytes()
    return int(one) == int(other)


def same_arrays(one: list[Any], other: list[Any]) -> bool:
    pairs = [(a, b) for a, b in zip(one, other, strict=True) if isinstance(a, np.ndarray)]
    return all(alike(tuple(a.tolist()), tuple(b.tolist())) for a, b in pairs)


# ------------------------------------------------------------------------------------ drawing


# What expressions are made of: I, U, F and B are expressions of i64, u64, f64 and bool, C is a
# condition, @ an index, $ an array and its element, ~ a call of a drawn helper.
GRAMMAR = {
    "I": """I + I; I - I; I * I; I // I; I % I; I // 7; I % 10; I // -3; I % 0; I & I; I | I;
        I ^ I; I << (I & 63); I >> (I & 63); I >> 63; -I; ~I; I + B; B - B; B * I; int(B);
        np.int64(U); truncate(F); plus(I, I); minus(I, I); times(I, I); popcount(U);
        trailing_zeros(U); bit_length(I); min(I, I); max(I, I, I); max(B, I); abs(I);
        I if C else I; $; $; $; ~; ~""",
    "U": """U + U; U - U; U * U; U // U; U % U; U & U; U | U; U ^ U; U << (U & np.uint64(63));
        U >> (U & np.uint64(63)); U >> 63; ~U; -U; np.uint64(I); np.uint64(B); U + 1; 3 * U;
        U // 10; U % np.uint64(0); U if C else U; min(U, U); max(U, U, U); abs(U); $; $; ~; ~""",
    "F": """F + F; F - F; F * F; F / F; -F; F + I; B * F; float(I); float(U); float(B);
        np.floor(F); np.ceil(F); np.sqrt(F); np.fmod(F, F); np.int64(I).view(np.float64);
        F if C else F; min(F, F); max(F, F, F); abs(F); $; $; ~; ~""",
    "B": """I < I; I <= I; I == I; I != I; I > I; I >= I; U < U; U == U; U >= U; F < F; F <= F;
        F > F; F >= F; F == F; F != F; B == B; B < B; B != I; I < I <= I; U <= U < U; F < F != F;
        0 <= I < 8; B and B; B or B; C and C or C; not C; bool(I); bool(F); U > 5; U == 0;
        B if C else B; $; ~; ~""",
}  # fmt: skip
RULES = {kind: [each.strip() for each in rules.split(";")] for kind, rules in GRAMMAR.items()}
LETTERS = {"i64": "I", "u64": "U", "f64": "F", "bool": "B"}
LOCALS = {"i64": "xyz", "u64": "uvw", "f64": "fgh", "bool": "bde"}
UPDATES = {
    "i64": "+ - * & | ^ // %", "u64": "+ - * & | ^ // %", "f64": "+ - * /", "bool": "",
}  # fmt: skip
RANGES = ("range(I & 7)", "range(5)", "range(I & 3, 5)", "range(3, 3)", "range(-2, 2)",
          "range(-9223372036854775808, -9223372036854775806)", "range(4, n & 3)",
          "range(9223372036854775804, 9223372036854775807)", "range(n, n)")  # fmt: skip


class Drawn:
    """`text`: a module with helpers and a function `loops`, whose parameters are `given`."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.lines: list[str] = []
        self.helpers: dict[str, tuple[dict[str, str], tuple[str, ...] | str]] = {}
        self.loops = 0  # that are around
        self.names: dict[str, str] = {}
        self.counters = 0
        for at in range(self.random.randrange(4)):
            self._function(f"helper{at}", self.random.choice(("part", "inlined")), 2)
        self.given = self._function("loops", "part", 3)
        self.text = HEAD + "\n".join(self.lines) + "\n"

    def arguments(self) -> list[Any]:
        return [self._argument(kind) for kind in self.given.values()]

    def _argument(self, kind: str) -> Any:
        random = self.random
        match kind:
            case "bool":
                return random.random() < 0.5
            case "i64":
                return random.choice(INTS)
            case "u64":
                return np.uint64(random.choice(INTS) % _WORDS)
            case "f64":
                return random.choice(FLOATS)
        dtype = ARRAYS[kind]
        if dtype == np.float64:
            return np.array([random.choice(FLOATS) for _ in range(SIZE)])
        return np.array([random.choice(INTS) for _ in range(SIZE)], dtype=np.int64).astype(dtype)

    # ------------------------------------------------------------------------- functions

    def _function(self, name: str, mark: str, depth: int) -> dict[str, str]:
        random = self.random
        arrays = list(ARRAYS) if name == "loops" else random.sample(list(ARRAYS), 3)
        given = {"n": "i64", "k": "i64", "m": "u64", "r": "f64", "c": "bool"}
        given |= {f"of_{kind[:-2]}": kind for kind in arrays}
        kinds = tuple(random.choice(tuple(LETTERS)) for _ in range(3))
        self.result = random.choice((kinds, kinds[0], kinds[1], kinds[:2], "void"))
        self.names, self.loops = dict(given), 0
        first = {"i64": "n", "u64": "m", "f64": "r", "bool": "c"}
        body = []
        for kind, names in LOCALS.items():
            body.append(f"{', '.join(names)} = {', '.join([first[kind]] * len(names))}")
            self.names |= dict.fromkeys(names, kind)
        for _ in range(random.randrange(3, 4 * depth)):
            body += self._statement(depth)
        body.append(self._return())
        self.lines += ["", "", f"@{mark}", f"def {name}({', '.join(given)}):"]
        self.lines += [f"    {line}" for line in body]
        self.helpers[name] = (given, self.result)
        return given

    def _return(self) -> str:
        if self.result == "void":
            return "return"
        kinds = (self.result,) if isinstance(self.result, str) else self.result
        return f"return {', '.join(self.of(kind) for kind in kinds)}"

    # ------------------------------------------------------------------------ statements

    def _block(self, depth: int) -> list[str]:
        lines: list[str] = []
        for _ in range(self.random.randrange(1, 4)):
            lines += self._statement(depth - 1)
        return [f"    {line}" for line in lines]

    def _statement(self, depth: int) -> list[str]:
        random, choice = self.random, self.random.randrange(100)
        kind = random.choice(("i64", *LETTERS))
        name = random.choice(LOCALS[kind])
        if choice < 24 or depth <= 0:
            return [f"{name} = {self.of(kind)}"]
        if choice < 36:
            update = random.choice([f"{op}=" for op in UPDATES[kind].split()] or ["="])
            return [f"{name} {update} {self.of(kind)}"]
        if choice < 42:
            both = random.sample(LOCALS[kind], 2)
            return [f"{', '.join(both)} = {self.of(kind)}, {self.of(kind)}"]
        if choice < 52:
            return [self._write()]
        if choice < 58:
            return [self._call_for_effect()]
        if choice < 63 and "of_i64" in self.names:
            return [self._filled(random.choice((
                "x = add(of_i64, I & 7, I)", "y = compare_swap(of_i64, I & 7, I, I)",
                "z = set_bits(of_i64, I & 7, I)", "y = load(of_i64, I & 7)",
                "store(of_i64, I & 7, I)", "y = compare_swap(of_i64, 3, load(of_i64, 3), I)",
            )), 1)]  # fmt: skip
        if choice < 78:
            return self._if(depth)
        if choice < 92 and self.loops < 2:
            return self._loop(depth)
        if choice < 96 and self.loops:
            return [f"if {self._condition()}:", f"    {random.choice(('break', 'continue'))}"]
        if choice < 98:
            return [f"if {self._condition()}:", f"    {self._return()}"]
        return ["pass"]

    def _array(self, kind: str | None = None) -> tuple[str, str] | None:
        """An array, of such elements, and what they are once they are read."""
        found = []
        for name, of in self.names.items():
            if of.endswith("[]"):
                read = of[:-2] if of in ("u64[]", "f64[]", "bool[]") else "i64"
                if kind in (None, read):
                    found.append((name, read))
        return self.random.choice(found) if found else None

    def _index(self) -> str:
        index = self.random.choice(("I & 7", "I & 7", "U & np.uint64(7)", "0", "7"))
        return self._filled(index, 1)

    def _write(self) -> str:
        found = self._array()
        assert found is not None
        forms = ["put({}, {}, {})", "{}[{}] = {}"]
        if found[1] != "bool":
            forms += ["{}[{}] += {}", "{}[{}] *= {}"]
        return self.random.choice(forms).format(found[0], self._index(), self.of(found[1]))

    def _call(self, wanted: str | tuple[str, ...]) -> str | None:
        """A call of a helper with such a result, if there is one that can be called from here."""
        found = [
            (name, given) for name, (given, result) in self.helpers.items()
            if result == wanted and set(given.values()) <= set(self.names.values())
        ]  # fmt: skip
        if not found:
            return None
        name, given = self.random.choice(found)
        args = [
            arg if kind.endswith("[]") else self.of(kind, 1) for arg, kind in given.items()
        ]  # fmt: skip
        return f"{name}({', '.join(args)})"

    def _call_for_effect(self) -> str:
        if not self.helpers:
            return "pass"
        result = self.random.choice([result for _, result in self.helpers.values()])
        call = self._call(result)
        if call is None or isinstance(result, str):
            return call or "pass"
        left = {kind: list(names) for kind, names in LOCALS.items()}
        return f"{', '.join(left[kind].pop() for kind in result)} = {call}"

    def _if(self, depth: int) -> list[str]:
        lines = [f"if {self._condition()}:", *self._block(depth)]
        if self.random.randrange(3) == 0:
            lines += [f"elif {self._condition()}:", *self._block(depth)]
        if self.random.randrange(2):
            lines += ["else:", *self._block(depth)]
        return lines

    def _loop(self, depth: int) -> list[str]:
        self.counters += 1
        name = f"turn{self.counters}"
        self.loops += 1
        if self.random.randrange(3):
            before = dict(self.names)
            span = self._filled(self.random.choice(RANGES), 1)
            self.names[name] = "i64"
            lines = [f"for {name} in {span}:", *self._block(depth)]
            if self.random.randrange(6) == 0:
                lines.append(f"    {name} = {self.of('i64')}")  # the next turn is the same
            self.names = before
        else:
            test = self.random.choice(("True", f"{name} < 4", f"{name} < 6 and C"))
            lines = [f"{name} = 0", f"while {self._filled(test, 2)}:", f"    {name} += 1"]
            if test == "True":
                lines += [f"    if {name} > 5:", "        break"]
            lines += self._block(depth)
        self.loops -= 1
        return lines

    # ----------------------------------------------------------------------- expressions

    def of(self, kind: str, depth: int = 3) -> str:
        """An expression of a type."""
        if depth <= 0 or self.random.randrange(5) == 0:
            return self._leaf(kind)
        rule = self.random.choice(RULES[LETTERS[kind]])
        if rule == "~":
            return self._call(kind) or self._leaf(kind)
        if rule == "$":
            found = self._array(kind)
            forms = ("at({}, {})", "{}[{}]")
            return (
                self.random.choice(forms).format(found[0], self._index())
                if found
                else self._leaf(kind)
            )
        return f"({self._filled(rule, depth)})"

    def _filled(self, rule: str, depth: int) -> str:
        kinds = {letter: kind for kind, letter in LETTERS.items()}
        return re.sub(
            r"\b[IUFBC]\b",
            lambda m: (
                self._condition(depth - 1) if m[0] == "C" else self.of(kinds[m[0]], depth - 1)
            ),
            rule,
        )

    def _condition(self, depth: int = 2) -> str:
        """A number is one, too."""
        number = self.random.randrange(4) == 0
        return self.of(self.random.choice(tuple(LETTERS)) if number else "bool", depth)

    def _leaf(self, kind: str) -> str:
        random = self.random
        if random.randrange(3):
            return random.choice([name for name, of in self.names.items() if of == kind])
        if kind == "i64":
            found = self._array()
            assert found is not None
            return random.choice((*(f"({value})" for value in INTS), "LIMIT", f"len({found[0]})"))
        if kind == "u64":
            return random.choice(("MASK", f"np.uint64({random.choice(INTS) % 2**63})"))
        if kind == "f64":
            finite = [value for value in FLOATS if abs(value) < float("inf")]
            return random.choice(("HALF", *(f"({value!r})" for value in finite)))
        return random.choice(("True", "False"))
