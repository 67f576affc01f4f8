"""The types of names in a translated function."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from gdatalog.codegen.function_trees import called
from gdatalog.codegen.types import Type, TypedFunction, builtin_type, read_from

# Names of the tile's state in printed loops, and their C++ (walk.cuh).
STATE_NAMES = {
    "start": "work.task.start", "stop": "work.task.stop", "trouble": "work.trouble",
}  # fmt: skip
OF_LANES = frozenset({"sum_of_lanes", "least_of_lanes", "greatest_of_lanes"})
BOOLS = frozenset(
    {"begin_unit", "ended", "few_keys", "has", "has_bit", "has_held", "late", "leads", "next_task"}
    | {"whole_lists"}
)


def cpp_type(kind: Type | None) -> str:
    return "double" if kind == "f64" else str(kind)


class LoopTypes(TypedFunction):
    """Infers the types of the names in a tile's loops, which call other functions than a CPU's.
    `narrows`: the names to which only elements of 32 bits are assigned: they take one register."""

    narrows: frozenset[str] = frozenset()

    def learn(self) -> None:
        super().learn()
        nodes = list(ast.walk(self.function.node))
        plain = [node for node in nodes if isinstance(node, ast.Assign)]
        stored = [n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
        alone = [n.id for each in plain for n in each.targets if isinstance(n, ast.Name)]
        self.narrows = frozenset(
            name
            for name in alone
            if stored.count(name) == alone.count(name) and self.narrow(name, plain)
        )

    def declared(self, name: str) -> str:
        """The C++ type of a variable."""
        return "i32" if name in self.narrows else cpp_type(self.names[name])

    def _call(self, node: ast.Call) -> Type | None:
        name, kinds = called(node), [self.of(arg) for arg in node.args]
        if name == "at":
            return read_from(str(kinds[0]))
        if name == "between":
            return "u64"
        found = builtin_type("abs" if name in OF_LANES else name, kinds)
        return found or ("f64" if name == "float_of_key" else "bool" if name in BOOLS else "i64")

    def narrow(self, name: str, statements: Sequence[ast.stmt]) -> bool:
        """Whether statements assign only elements of 32 bits to a name."""
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
            case (
                ast.Call(func=ast.Name(id="at"), args=[ast.Name(id=name), _])
                | ast.Call(func=ast.Name(id="find_indexed"), args=[_, ast.Name(id=name), _])
                | ast.Subscript(value=ast.Name(id=name))
            ):
                return self.names.get(name) == "i32[]"
            case _:
                return False


def names_in(node: ast.AST) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def assigned_in(body: Sequence[ast.stmt]) -> list[str]:
    """The names that are assigned, once each."""
    found = (n for node in body for n in ast.walk(node) if isinstance(n, ast.Name))
    return list(dict.fromkeys(n.id for n in found if isinstance(n.ctx, ast.Store)))
