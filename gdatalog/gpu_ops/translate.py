"""Printed loops, which are Python, as CUDA.

The printer writes a small part of Python: names, arithmetic, comparisons, calls of known
functions, `if`, `for` over a range, `while`, `continue`, `break`, `return` of a status. Here its
syntax tree becomes C++ statement by statement. Names get types by what they are assigned, and are
declared at the top of the function, so that a jump crosses nothing.

Some forms are of tiles alone. `for i in lanes(low, high)`: each lane takes turns of its own; a
`continue` then jumps to the end of the turn, where all lanes meet and write their rows. `for r in
heads(low, high)`: the same, but a loop `for i in spread(low, high)` in it, its last statement, is
one whose turns the lanes share: those of all their ranges. `for i in turns(low, high)`: a range
whose end may come nearer on the way. `emit(...)` gives a row. `leads()` is true for one lane.

Where a loop's turns begin by looking things up, lanes look up those of as many turns at once
(`heads.py`), and the tile then takes one turn after the other.

Above 300 lines, for what can be said in the loops and how it is said in C++ stand side by side.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from gdatalog.gpu_ops.heads import Head, head_of
from gdatalog.gpu_ops.loop_types import OF_LANES, STATE_NAMES, Type, Types, called, names_in, wider

# Functions that a tile's lanes call together.
TOGETHER = frozenset({
    "above", "and_rows", "below", "copy_row", "count_and_shared", "count_common",
    "count_row_shared", "fill_ones", "intersect", "parent_of", "recode_rows",
})  # fmt: skip
# Behind which of its arguments a function wants to know how long that array is.
LENGTHS = {
    "find_indexed": (1,), "find_root": (0, 2), "parent_of": (0,), "recode_rows": (3, 5),
}  # fmt: skip
RENAMED = {
    "sum_of_lanes": "sum", "least_of_lanes": "least", "greatest_of_lanes": "greatest",
    "trailing_zeros": "lowest_bit", "popcount": "bits_of",
}  # fmt: skip
# What a tile is at, in the words of walk.cuh.
STATE = {
    "next_task": "next_work(t, run, work, {0})",
    "begin_unit": "begin_unit(t, run, work, {0}, {1})",
    "mark_task": "mark_task(work)",
    "first_turn": "first_turn(work)",
    "last_turn": "last_turn(work, {0})",
    "late": "overdue(t, run, work)",
    "share_turns": "share_turns(t, run, work, {0}, {1}, {2})",
    "leads": "t.rank == 0",
    "ended": "ended(t, run, work)",
    "whole_lists": "whole_lists(t, work, {0}, {0}_n, {1})",
    "open_list": "open_list(t, tails, {0})",
    "listed": "listed(t, tails, {0})",
    "offer": "offer(t, tails, {0}, {1}, {2}, {3})",
    "wipe": "wipe(t, {0}, {1}, {1}_n, {2})",
    "put": "{0}[{1}] = {2}",
}
OPERATORS = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.BitAnd: "&", ast.BitOr: "|",
    ast.FloorDiv: "/",  # of what is not negative
    ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>", ast.Eq: "==", ast.NotEq: "!=",
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.And: "&&", ast.Or: "||",
}  # fmt: skip


@dataclass(slots=True)
class _Lanes:
    """A loop whose turns lanes take: its label, and how many loops are open inside of it."""

    end: str
    depth: int = 0
    left: bool = False  # whether something jumps there


@dataclass(slots=True)
class Translation:
    """`arrays`: what the elements of each array are. `outputs`: the types of a row's columns."""

    arrays: Mapping[str, Type]
    outputs: Sequence[Type]
    lanes: int
    types: Types = field(init=False)
    root: str | None = None  # the root whose search begins in shared memory
    lists: int = 0  # how many lists of rows a tile has
    lengths: set[str] = field(default_factory=set)  # arrays that are asked how long they are
    comments: dict[int, str] = field(default_factory=dict)  # by line
    lines: list[str] = field(default_factory=list)
    _depth: int = 1
    _turns: int = 0
    _inside: _Lanes | None = None
    _loops: list[str] = field(default_factory=list)  # where a `break` goes, if not just behind
    _renamed: dict[str, str] = field(default_factory=dict)  # what a lane looks up is its own

    def body(self, source: str) -> list[str]:
        """The statements of the one function of a text, which knows the state of its tile."""
        for number, line in enumerate(source.splitlines(), 1):
            code, mark, comment = line.partition("  # ")
            if mark and code.strip():
                self.comments[number] = comment
        function = ast.parse(source).body[0]
        assert isinstance(function, ast.FunctionDef)
        self.types = Types(self.arrays)
        self.types.learn(function.body)
        self._block(function.body)
        return self.lines

    def declarations(self) -> list[str]:
        """The function's variables."""
        found: dict[Type, list[str]] = {}
        for name, kind in self.types.names.items():
            found.setdefault(kind, []).append(name)
        lines = [f"    {kind} {', '.join(names)};" for kind, names in found.items()]
        return [*lines, *(f"    i64 {name}[{size}];" for name, size in self.types.tuples.items())]

    # -------------------------------------------------------------------------- statements

    def _line(self, text: str) -> None:
        self.lines.append("    " * self._depth + text)

    @contextmanager
    def _braces(self, head: str, loop: bool = False) -> Iterator[None]:
        self._line(head + " {")
        self._depth += 1
        if loop:
            self._loops.append("")
            if self._inside is not None:
                self._inside.depth += 1
        yield
        if loop:
            self._loops.pop()
            if self._inside is not None:
                self._inside.depth -= 1
        self._depth -= 1
        self._line("}")

    def _block(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Pass():
                pass
            case ast.Expr(value=ast.Call(func=ast.Name(id="emit"), args=args)):
                self._emit(args)
            case ast.Expr(value=value):
                self._line(self._expr(value) + ";")
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Tuple(elts=values)):
                for at, value in enumerate(values):
                    self._line(f"{name}[{at}] = {self._expr(value)};")
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                comment = self.comments.get(node.lineno, "")
                known = self._renamed.get(name) or STATE_NAMES.get(name, name)
                self._line(f"{known} = {self._expr(value)};" + (comment and f"  // {comment}"))
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                self._several(names, values)
            case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
                self._line(f"{name} {OPERATORS[type(op)]}= {self._expr(value)};")
            case ast.If(test=test, body=body, orelse=orelse):
                with self._braces(f"if {self._condition(test)}"):
                    self._block(body)
                if orelse:
                    with self._braces("else"):
                        self._block(orelse)
            case ast.While(test=test, body=body):
                with self._braces(f"while {self._condition(test)}", loop=True):
                    self._block(body)
            case ast.For():
                self._for(node)
            case ast.Continue():
                if self._inside is None or self._inside.depth:
                    self._line("continue;")
                else:
                    self._leave(self._inside)
            case ast.Break():
                assert self._inside is None or self._inside.depth
                self._line(f"goto {self._loops[-1]};" if self._loops[-1] else "break;")
            case ast.Return(value=ast.Constant(value=int(status))):
                self._return(status)
            case _:
                raise AssertionError(ast.unparse(node))

    def _several(self, names: Sequence[ast.expr], values: Sequence[ast.expr]) -> None:
        """Assignments that are meant at once."""
        targets = [self._expr(name) for name in names]
        sources = [self._expr(value) for value in values]
        if any(target in names_in(value) for target in targets for value in values):
            with self._braces(""):
                for at, (name, source) in enumerate(zip(targets, sources, strict=True)):
                    self._line(f"const {self.types.names[name]} new{at} = {source};")
                for at, name in enumerate(targets):
                    self._line(f"{name} = new{at};")
            return
        for name, source in zip(targets, sources, strict=True):
            self._line(f"{name} = {source};")

    def _for(self, node: ast.For) -> None:
        assert isinstance(node.target, ast.Name) and isinstance(node.iter, ast.Call)
        name, bounds = node.target.id, [self._expr(arg) for arg in node.iter.args]
        low, high = bounds if len(bounds) == 2 else ("0", bounds[0])
        kind = called(node.iter.func)
        if kind == "heads" and _spread_of(node) is not None:
            self._heads_loop(name, low, high, node.body)
            return
        if kind in ("lanes", "heads"):
            self._lanes_loop(name, low, high, node.body)
            return
        end = high if kind == "turns" else f"{name}_end"
        ends = f"i64 {name} = {low}" + ("" if kind == "turns" else f", {end} = {high}")
        head = head_of(node) if self.lanes > 1 and self._inside is None else None
        if head is not None:
            self._looked_up(name, ends, end, head)
            return
        with self._braces(f"for ({ends}; {name} < {end}; ++{name})", loop=True):
            self._block(node.body)

    def _looked_up(self, name: str, ends: str, end: str, head: Head) -> None:
        """A loop of which lanes look up the heads of as many turns at once."""
        self._turns += 1
        out, first = f"loop{self._turns}", f"{name}_first"
        goes, left, mine = f"{name}_goes", f"{name}_left", f"{name}_mine"
        ends = ends.replace(name, first, 1)
        with self._braces(f"for ({ends}; {first} < {end}; {first} += LANES)"):
            self._line(f"const i64 {mine} = {first} + t.rank;")
            self._line(f"bool {goes} = false;")
            own = {variable: f"{variable}_mine" for variable in head.variables}
            for variable, its in own.items():
                kind = "i32" if self.types.narrow(variable, head.statements) else None
                self._line(f"{kind or self.types.names[variable]} {its} = 0;")
            with self._braces("do"):
                self._line(f"if ({mine} >= {end}) break;")
                self._loops.append("")
                self._renamed = {**own, name: mine}
                for statement in head.statements:
                    if isinstance(statement, ast.If):
                        self._line(f"if {self._condition(statement.test)} break;")
                    else:
                        self._statement(statement)
                self._renamed = {}
                self._loops.pop()
                self._line(f"{goes} = true;")
            self.lines[-1] += " while (false);"
            votes = f"u32 {left} = ballot(t, {goes})"
            with self._braces(f"for ({votes}; {left} != 0u; {left} &= {left} - 1u)"):
                self._line(f"const int {name}_rank = lowest_bit({left});")
                self._line(f"const i64 {name} = {first} + {name}_rank;")
                self._line(f"if ({name} >= {end}) goto {out};")
                for variable in head.wanted:
                    self._line(f"{variable} = from_rank(t, {own[variable]}, {name}_rank);")
                self._loops.append(out)
                self._block(head.rest)
                self._loops.pop()
        self._line(f"{out}:;")

    def _lanes_loop(self, name: str, low: str, high: str, body: Sequence[ast.stmt]) -> None:
        """Turns by lanes: each does its own, then all meet for the rows that they have."""
        assert self._inside is None
        self._turns += 1
        emits = any(isinstance(n, ast.Name) and n.id == "emit" for s in body for n in ast.walk(s))
        first = f"{name}_first"
        ends = f"i64 {first} = {low}, {name}_end = {high}"
        with self._braces(f"for ({ends}; {first} < {name}_end; {first} += LANES)"):
            self._line(f"const i64 {name} = {first} + t.rank;")
            if emits:
                self._line("gives = false;")
            with self._alone(f"turn{self._turns}", f"if ({name} < {name}_end)"):
                self._block(body)
            if emits:
                self._write("ballot(t, gives)", "gives", [f"give{at}" for at in range(self._width)])

    def _heads_loop(self, name: str, low: str, high: str, body: Sequence[ast.stmt]) -> None:
        """Lanes begin turns of their own, each of which ends in a range; then they share the turns
        of all these ranges."""
        assert self._inside is None
        *head, last = body
        assert isinstance(last, ast.For) and isinstance(last.target, ast.Name)
        assert isinstance(last.iter, ast.Call)
        self._turns += 1
        inner = last.target.id
        first, place = f"{name}_first", f"{inner}_place"
        own = [n for n in _assigned(head) if any(n in names_in(node) for node in last.body)]
        ends = f"i64 {first} = {low}, {name}_end = {high}"
        with self._braces(f"for ({ends}; {first} < {name}_end; {first} += LANES)"):
            self._line(f"const i64 {name} = {first} + t.rank;")
            self._line(f"i64 {inner}_low = 0, {inner}_high = 0;")
            with self._alone(f"head{self._turns}", f"if ({name} < {name}_end)"):
                self._block(head)
                for side, bound in zip(("low", "high"), last.iter.args, strict=True):
                    self._line(f"{inner}_{side} = {self._expr(bound)};")
            self._line(f"const Spread {inner}_all = spread_out(t, {inner}_low, {inner}_high);")
            total = f"{inner}_all.total"
            with self._braces(f"for (i64 {inner}_at = 0; {inner}_at < {total}; {inner}_at += LANES)"):
                self._line(f"const i64 {place} = {inner}_at + t.rank;")
                self._line(f"const int {inner}_rank = owner_of(t, {inner}_all, {place});")
                origin = f"from_rank(t, {inner}_all.origin, {inner}_rank)"
                self._line(f"const i64 {inner} = {origin} + {place};")
                for variable in own:
                    kind = self.types.names[variable]
                    theirs = f"from_rank(t, {variable}, {inner}_rank)"
                    self._line(f"const {kind} {variable}_own = {theirs};")
                self._renamed = {variable: f"{variable}_own" for variable in own}
                with self._alone(f"turn{self._turns}", f"if ({place} < {total})"):
                    self._block(last.body)
                self._renamed = {}

    @contextmanager
    def _alone(self, end: str, head: str) -> Iterator[None]:
        """What each lane does on its own, up to where all meet again."""
        self._inside = _Lanes(end)
        with self._braces(head):
            yield
        if self._inside.left:
            self._line(f"{end}:;")
        self._inside = None

    @property
    def _width(self) -> int:
        return len(self.outputs)

    def _emit(self, args: Sequence[ast.expr]) -> None:
        columns = [self._expr(arg) for arg in args]
        if self._inside is not None:
            for at, column in enumerate(columns):
                self._line(f"give{at} = {column};")
            self._line("gives = true;")
            return
        self._write("1u", "t.rank == 0", columns)

    def _write(self, votes: str, mine: str, columns: Sequence[str]) -> None:
        """Writes the rows that lanes have; the tile ends where there is no room, or enough."""
        with self._braces(""):
            self._line(f"const u32 votes = {votes};")
            with self._braces("if (votes != 0u)"):
                self._line("if (!room(t, run, work, bits_of(votes))) goto finish;")
                with self._braces(f"if ({mine})"):
                    self._line("const i64 row = row_of(run, work) + before(t, votes);")
                    for at, (column, kind) in enumerate(zip(columns, self.outputs, strict=True)):
                        self._line(f"out{at}[row] = ({kind})({column});")
                self._line("if (!wrote(t, run, work, bits_of(votes))) goto finish;")

    def _return(self, status: int) -> None:
        """All work is void. A lane alone says so where the tile meets again."""
        if self._inside is not None:
            self._line(f"work.trouble = {status};")
            self._leave(self._inside)
            return
        self._line(f"stop(run.control, (Reason){status});")
        self._line("goto finish;")

    def _leave(self, inside: _Lanes) -> None:
        """The lane's turn is over."""
        inside.left = True
        self._line(f"goto {inside.end};")

    # ------------------------------------------------------------------------- expressions

    def _condition(self, node: ast.expr) -> str:
        text = self._expr(node)
        return text if isinstance(node, (ast.Compare, ast.BoolOp)) else f"({text})"

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
                return f"~({self._expr(operand)})"
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=value)):
                return _least(value) if isinstance(value, int) else f"-{value!r}"
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                inner = self._expr(operand)
                return f"-({inner})" if self.types.of(operand) == "double" else f"minus(0, {inner})"
            case ast.BinOp(left=left, op=op, right=right):
                one, other = self._expr(left), self._expr(right)
                if isinstance(op, ast.LShift) and self.types.of(left) != "u64":
                    return f"shift_left({one}, {other})"
                return f"({one} {OPERATORS[type(op)]} {other})"
            case ast.BoolOp(op=op, values=values):
                return f"({f' {OPERATORS[type(op)]} '.join(map(self._expr, values))})"
            case ast.Compare(left=left, ops=ops, comparators=others):
                return self._compare(left, ops, others)
            case ast.IfExp(test=test, body=one, orelse=other):
                kind = self.types.of(node)
                yes, no = self._expr(one), self._expr(other)
                return f"({self._expr(test)} ? ({kind})({yes}) : ({kind})({no}))"
            case ast.Subscript(value=ast.Name(id=name), slice=index):
                return f"{name}[{self._expr(index)}]"
            case ast.Call(func=function, args=args):
                return self._call(called(function), args)
            case _:
                raise AssertionError(ast.unparse(node))

    def _compare(self, left: ast.expr, ops: Sequence[ast.cmpop], others: Sequence[ast.expr]) -> str:
        texts = [self._expr(left), *map(self._expr, others)]
        parts = [f"{texts[at]} {OPERATORS[type(op)]} {texts[at + 1]}" for at, op in enumerate(ops)]
        return f"({' && '.join(parts)})"

    def _call(self, name: str, args: Sequence[ast.expr]) -> str:
        if name == "len":
            return self._length(args[0])
        texts = [self._expr(arg) for arg in args]
        if name == "whole_lists":
            self._length(args[0])
        if name in STATE:
            if name == "open_list":
                self.lists = max(self.lists, int(texts[0]) + 1)
            return STATE[name].format(*texts)
        if name in ("np.int64", "np.uint64", "float"):
            kind = {"np.int64": "i64", "np.uint64": "u64", "float": "double"}[name]
            return f"({kind})({texts[0]})"
        if name == "at":
            return f"{texts[0]}[{texts[1]}]"
        if name in ("min", "max"):
            return self._extreme(name, args, texts)
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

    def _extreme(self, name: str, args: Sequence[ast.expr], texts: Sequence[str]) -> str:
        kind = "i64"
        for arg in args:
            kind = wider(kind, self.types.of(arg))
        found = f"({kind})({texts[0]})"
        for text in texts[1:]:
            function = "least_of" if name == "min" else "greatest_of"
            found = f"{function}({found}, ({kind})({text}))"
        return found

    def _length(self, array: ast.expr) -> str:
        assert isinstance(array, ast.Name)
        self.lengths.add(array.id)
        return f"{array.id}_n"


def _spread_of(node: ast.For) -> ast.For | None:
    """The loop at the end of a loop's turns that lanes share."""
    last = node.body[-1]
    if isinstance(last, ast.For) and isinstance(last.iter, ast.Call):
        return last if called(last.iter.func) == "spread" else None
    return None


def _assigned(body: Sequence[ast.stmt]) -> list[str]:
    """What is assigned on the way, once each."""
    found = (n for node in body for n in ast.walk(node) if isinstance(n, ast.Name))
    return list(dict.fromkeys(n.id for n in found if isinstance(n.ctx, ast.Store)))


def _least(value: int) -> str:
    """A negative constant; the least int has no positive one."""
    return f"(-{value - 1}ll - 1)" if value == 1 << 63 else f"(-{value}ll)"
