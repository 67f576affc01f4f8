"""Translates the expressions of printed loops to C++, infers the types of names from their
assignments, and writes the statements that output rows and counts.

Diverged lanes output their rows and counts at the end of their turns, where all lanes converge.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from gdatalog.codegen.function_trees import called
from gdatalog.gpu_ops.cpp_types import OF_LANES, STATE_NAMES, LoopTypes, cpp_type
from gdatalog.gpu_ops.teams import Team
from gdatalog.records import dataclass, field

# Functions that all lanes of a tile call together.
TOGETHER = frozenset({
    "above", "and_rows", "below", "clear_tally", "copy_row", "count_and_shared", "count_common",
    "count_row_shared", "fill_ones", "intersect", "parent_of", "recode_rows", "sum_common",
})  # fmt: skip
# Positions of array arguments that are followed by the array's length.
LENGTHS = {
    "find_child": (0,), "find_indexed": (1,), "find_root": (0, 2), "find_tally": (0,),
    "has_child": (0,), "parent_of": (0,), "recode_rows": (3, 5), "sum_common": (6,),
}  # fmt: skip
RENAMED = {
    "sum_of_lanes": "sum", "least_of_lanes": "least", "greatest_of_lanes": "greatest",
    "trailing_zeros": "lowest_bit", "popcount": "bits_of",
    "np.floor": "floor_of", "np.ceil": "ceil_of", "np.sqrt": "root_of", "np.exp": "exp_of",
    "np.log": "log_of", "np.power": "real_power", "np.fmod": "real_remainder",
}  # fmt: skip
# C++ for the functions that use the tile's state; `{n}` is argument n (walk.cuh and others).
STATE = {
    "next_task": "next_work(t, run, work, {0}, {1})",
    "begin_unit": "begin_unit(t, run, work, {0}, {1})",
    "mark_task": "mark_task(work)",
    "first_turn": "first_turn(work)",
    "last_turn": "last_turn(work, {0})",
    "late": "overdue(t, run, work)",
    "share_turns": "share_turns(t, run, work, {0}, {1}, {2})",
    "skip_units": "skip_units(t, run, work, {0})",
    "leads": "t.rank == 0",
    "ended": "ended(t, run, work)",
    "whole_lists": "whole_lists(t, work, {0}, {0}_n, {1})",
    "open_list": "open_list(t, tails, {0})",
    "listed": "listed(t, tails, {0})",
    "offer": "offer(t, tails, {0}, {1}, {2}, {3})",
    "wipe": "wipe(t, {0}, {1}, {1}_n, {2})",
    "meet": "sync(t)",
    "add_local": "add_local({0}, {1}, {2}, work.trouble)",
    "add_checked": "add_checked({0}, {1}, work.trouble)",
    "hold_list": "hold_list(t, held, held_now, read_only({0}), {1}, {2})",
    "has_held": "({0} != 0 ? holds_key(held, held_now, {4}) : has({1}, {2}, {3}, {4}))",
    "put": "{0}[{1}] = {2}",
}
OPERATORS = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.BitAnd: "&", ast.BitOr: "|",
    ast.FloorDiv: "/",  # operands are not negative
    ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>", ast.Eq: "==", ast.NotEq: "!=",
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.And: "&&", ast.Or: "||",
}  # fmt: skip


@dataclass(slots=True)
class Spoken:
    """Translates expressions. `arrays`: the element types of arrays; `outputs`: the types of a
    row's columns."""

    arrays: Mapping[str, str]
    outputs: Sequence[str]
    lanes: int
    buffers: Sequence[str] = ()  # tiles may borrow longer parts of these; outer levels first
    types: LoopTypes = field(init=False)
    root: str | None = None  # the root list whose search starts in shared memory
    lists: int = 0  # how many worklists a tile has
    counts: bool = False  # whether tables of counts are used
    teams: bool = False  # whether the tiles of a block may take units together
    team: Team | None = None  # the loops for which they do
    dealt: int = 0  # how many variables of a team's threads are dealt out
    holds: bool = False  # whether lists are held in shared memory
    entries: bool = False  # whether lanes take units of their own
    lengths: set[str] = field(default_factory=set)  # arrays whose length is read
    _renamed: dict[str, str] = field(default_factory=dict)  # names in C++, if they differ

    def _condition(self, node: ast.expr) -> str:
        text = self._expr(node)
        return text if isinstance(node, (ast.Compare, ast.BoolOp)) else f"({text})"

    def _wide(self, node: ast.expr) -> str:
        """An expression of 64 bits, or of its own type."""
        narrow = isinstance(node, ast.Name) and node.id in self.types.narrows
        return f"(i64){self._expr(node)}" if narrow else self._expr(node)

    def _expr(self, node: ast.expr) -> str:
        match node:
            case ast.Constant(value=bool(value)):
                return "true" if value else "false"
            case ast.Constant(value=int(value)):
                return str(value) if value < 1 << 31 else f"{value}ll"
            case ast.Constant(value=float(value)):
                return repr(value)
            case ast.Name(id=name):
                return self._renamed.get(name) or STATE_NAMES.get(name, name)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return f"!({self._expr(operand)})"
            case ast.UnaryOp(op=ast.Invert(), operand=operand):
                return f"~({self._wide(operand)})"
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=value)):
                return _least(value) if isinstance(value, int) else f"-{value!r}"
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                inner = self._expr(operand)
                return f"-({inner})" if self.types.of(operand) == "f64" else f"minus(0, {inner})"
            case ast.BinOp(left=left, op=op, right=right):
                one, other = self._wide(left), self._wide(right)
                if isinstance(op, ast.LShift) and self.types.of(left) != "u64":
                    return f"shift_left({one}, {other})"
                return f"({one} {OPERATORS[type(op)]} {other})"
            case ast.BoolOp(op=op, values=values):
                return f"({f' {OPERATORS[type(op)]} '.join(map(self._expr, values))})"
            case ast.Compare(left=left, ops=ops, comparators=others):
                return self._compare(left, ops, others)
            case ast.IfExp(test=test, body=one, orelse=other):
                kind = cpp_type(self.types.of(node))
                yes, no = self._expr(one), self._expr(other)
                return f"({self._expr(test)} ? ({kind})({yes}) : ({kind})({no}))"
            case ast.Subscript(value=ast.Name(id=name), slice=index):
                return f"{name}[{self._expr(index)}]"
            case ast.Call(args=args):
                return self._call(called(node), node, args)
            case _:
                raise AssertionError(ast.unparse(node))

    @property
    def _listed(self) -> str:
        """Whether the keys of a team's table are listed, as an argument of templates."""
        return "true" if self.team is not None and self.team.listed else "false"

    def _compare(self, left: ast.expr, ops: Sequence[ast.cmpop], others: Sequence[ast.expr]) -> str:
        texts = [self._expr(left), *map(self._expr, others)]
        parts = [f"{texts[at]} {OPERATORS[type(op)]} {texts[at + 1]}" for at, op in enumerate(ops)]
        return f"({' && '.join(parts)})"

    def _call(self, name: str, node: ast.Call, args: Sequence[ast.expr]) -> str:
        if name == "len":
            return self._length(args[0])
        texts = [self._expr(arg) if name == "at" else self._wide(arg) for arg in args]
        if name == "whole_lists":
            self._length(args[0])
        if name in STATE:
            self.holds = self.holds or name == "hold_list"
            self.counts = self.counts or name in ("add_local", "add_checked")
            if name == "next_task":
                texts.append("LANES" if self.entries else "1")
            if name == "next_task" and self.team is not None:
                table, values = self.team.table, self.team.values
                own = f"{table}, {table}_own, {table}_n, {values}, {values}_own"
                words = "t, run, work, team_words, team_numbers, team_table"
                return f"next_of_team({words}, {texts[0]}, {own}, {self.team.length})"
            if name == "next_task" and self.buffers:  # hold nothing while waiting
                return f"(return_rooms(t, lent, borrowed, 0), {STATE[name].format(*texts)})"
            if name == "open_list":
                self.lists = max(self.lists, int(texts[0]) + 1)
            return STATE[name].format(*texts)
        if name in ("np.int64", "np.uint64", "float"):
            kind = {"np.int64": "i64", "np.uint64": "u64", "float": "double"}[name]
            return f"({kind})({texts[0]})"
        if name == "at":
            return f"{texts[0]}[{texts[1]}]"
        if name in ("min", "max"):
            return self._extreme(name, cpp_type(self.types.of(node)), texts)
        if name in ("add_common", "clear_tally", "few_keys", "find_tally", "sum_common"):
            self.counts = True
        if name == "clear_tally" and self.team is not None:
            table, *rest = texts
            more = f"{table}, {table}_n, {', '.join(rest)}"
            return f"clear_of_team<{self._listed}>(t, work, team_words, team_table, {more})"
        if name == "add_common":  # where it counts is a template argument
            return f"add_common<{texts[-1]}>({', '.join(['t', *texts[:-1]])})"
        if name == "abs":
            return f"magnitude({texts[0]})"
        if name == "find_root" and self.root in (None, texts[0]):
            self.root = texts[0]
            given = texts[0], self._length(args[0]), "top", "n_top", texts[-1]
            return f"find_in_root_with_top({', '.join(given)})"
        for place in reversed(LENGTHS.get(name, ())):
            texts.insert(place + 1, self._length(args[place]))
        if name in TOGETHER or name in OF_LANES:
            texts.insert(0, "t")
        return f"{RENAMED.get(name, name)}({', '.join(texts)})"

    def _extreme(self, name: str, kind: str, texts: Sequence[str]) -> str:
        found = f"({kind})({texts[0]})"
        for text in texts[1:]:
            function = "least_of" if name == "min" else "greatest_of"
            found = f"{function}({found}, ({kind})({text}))"
        return found

    def _length(self, array: ast.expr) -> str:
        assert isinstance(array, ast.Name)
        self.lengths.add(array.id)
        return f"{array.id}_n"


def _least(value: int) -> str:
    """A negative constant. C++ has no literal for the least int."""
    return f"(-{value - 1}ll - 1)" if value == 1 << 63 else f"(-{value}ll)"
