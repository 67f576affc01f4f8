"""Infers the C++ types of names in printed loops from their assignments."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from gdatalog.records import dataclass, field

Type = str  # of C++: bool, i64, u64, double

# Names of the tile's state in printed loops, and their C++ (walk.cuh).
STATE_NAMES = {
    "start": "work.task.start", "stop": "work.task.stop", "trouble": "work.trouble",
}  # fmt: skip
OF_LANES = frozenset({"sum_of_lanes", "least_of_lanes", "greatest_of_lanes"})
BOOLS = frozenset(
    {"begin_unit", "ended", "few_keys", "has", "has_bit", "late", "leads", "next_task"}
    | {"whole_lists"}
)
DOUBLES = frozenset({
    "float_of_key", "floor_of", "ceil_of", "root_of", "exp_of", "log_of", "real_power",
    "real_remainder",
})  # fmt: skip


@dataclass(slots=True)
class LoopTypes:
    """`arrays`: the element types of arrays. `names`: the types of local variables; `tuples`: the
    lengths of local arrays."""

    arrays: Mapping[str, Type]
    names: dict[str, Type] = field(default_factory=dict)
    tuples: dict[str, int] = field(default_factory=dict)
    turns: set[str] = field(default_factory=set)  # loop variables, which loops declare

    def learn(self, body: Sequence[ast.stmt]) -> None:
        """Infers the types of a function's names."""
        while self._more(body):
            pass

    def _more(self, body: Sequence[ast.stmt]) -> bool:
        """One round of inference; returns whether it has changed any type."""
        before = dict(self.names)
        for node in (inner for statement in body for inner in ast.walk(statement)):
            match node:
                case ast.For(target=ast.Name(id=name)):
                    self.turns.add(name)
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Tuple(elts=values)):
                    self.tuples[name] = len(values)
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    self._widen(name, self.of(value))
                case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                    for target, value in zip(names, values, strict=True):
                        assert isinstance(target, ast.Name)
                        self._widen(target.id, self.of(value))
                case ast.AugAssign(target=ast.Name(id=name), value=value):
                    self._widen(name, self.of(value))
        return self.names != before

    def _widen(self, name: str, kind: Type) -> None:
        if name in STATE_NAMES:
            return
        self.names[name] = wider(self.names.get(name, "bool"), kind)

    def of(self, node: ast.expr) -> Type:
        match node:
            case ast.Constant(value=bool()) | ast.Compare() | ast.UnaryOp(op=ast.Not()):
                return "bool"
            case ast.Constant(value=float()):
                return "double"
            case ast.Name(id=name):
                whole = name in STATE_NAMES or name in self.turns
                return self.names.get(name, "i64" if whole else "bool")
            case ast.BoolOp(values=values):
                return "bool" if all(self.of(v) == "bool" for v in values) else "i64"
            case ast.BinOp(left=left, op=op, right=right):
                if isinstance(op, ast.Div):
                    return "double"
                return wider("i64", wider(self.of(left), self.of(right)))
            case ast.UnaryOp(operand=operand):
                return wider("i64", self.of(operand))
            case ast.IfExp(body=one, orelse=other):
                return wider(self.of(one), self.of(other))
            case ast.Subscript(value=ast.Name(id=name)):
                return "i64" if name in self.tuples else self._element(name)
            case ast.Call(func=function, args=args):
                return self._type_of_call(called(function), args)
            case _:
                return "i64"

    def _element(self, array: str) -> Type:
        return {"u64": "u64", "double": "double"}.get(self.arrays[array], "i64")

    def _type_of_call(self, name: str, args: Sequence[ast.expr]) -> Type:
        if name in ("np.uint64", "float"):
            return "u64" if name == "np.uint64" else "double"
        if name == "at":
            assert isinstance(args[0], ast.Name)
            return self._element(args[0].id)
        if name in ("min", "max", "abs") or name in OF_LANES:
            kind = "bool"
            for arg in args:
                kind = wider(kind, self.of(arg))
            return wider("i64", kind)
        if name in DOUBLES:
            return "double"
        return "bool" if name in BOOLS else "i64"

    def narrow(self, name: str, statements: Sequence[ast.stmt]) -> bool:
        """Whether all that some statements assign to a name are elements of 32 bits."""
        values = [
            statement.value
            for statement in statements
            if isinstance(statement, ast.Assign) and names_in(statement.targets[0]) == {name}
        ]
        return all(map(self._of_32_bits, values))

    def _of_32_bits(self, node: ast.expr) -> bool:
        match node:
            case ast.Call(func=ast.Attribute(attr="int64"), args=[inner]):
                return self._of_32_bits(inner)
            case ast.Call(func=ast.Name(id="at"), args=[ast.Name(id=name), _]):
                return self.arrays.get(name) == "i32"
            case ast.Call(func=ast.Name(id="find_indexed"), args=[_, ast.Name(id=name), _]):
                return self.arrays.get(name) == "i32"
            case ast.Subscript(value=ast.Name(id=name)):
                return self.arrays.get(name) == "i32"
            case _:
                return False


def wider(one: Type, other: Type) -> Type:
    order = ("bool", "i64", "u64", "double")
    return max(one, other, key=order.index)


def called(function: ast.expr) -> str:
    return ast.unparse(function)


def names_in(node: ast.AST) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
