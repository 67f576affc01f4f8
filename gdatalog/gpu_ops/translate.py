"""Translates printed loops, which are Python, to CUDA.

The printer writes a small part of Python: names, arithmetic, comparisons, calls of known functions,
`if`, `for` over a range, `while`, `continue`, `break`, `return` of a status. This module translates
the syntax tree statement by statement. It infers the types of names from their assignments, and
declares all names at the top of the function, so that no jump crosses a declaration.

Some forms are for tiles only:

- `for i in lanes(low, high)`: each lane takes turns of its own. `continue` jumps to the end of the
  turn, where all lanes converge and write their rows.
- `for i in lanes(low, high, unit, base)`: the same for the turns of a unit, counted from `base`.
  The tile can give the remaining turns to other tiles; this lowers `high`, a variable.
- `for j in spread(low, high)`, the last statement of a turn of lanes: the lanes share the turns of
  the ranges of all lanes. `spread(low, high, array, values, length)` has only the positions at
  which the array has one of these values.
- `for i in units(low, high)`: like `lanes`, for units of the task.
- `for i in turns(low, high)`: a range whose end may become lower on the way.
- `emit(...)` outputs a row, `emit_fresh(marks, number, ...)` a row that was not marked,
  or `emit_fresh(known, number, ...)` one that was not in a hash set, of one or two numbers;
  `mark(marks, place)` only marks a row.
- `length = add_tally(counts, values, length, key, low, amount)` adds to a table of counts. A
  diverged lane emits, marks or adds at most once in a turn; this takes effect where the lanes
  converge.
- `leads()` is true for one lane.

If a loop's turns start with look-ups, each lane first does those of a turn of its own (`heads.py`);
the tile then takes one turn after the other.

For profiles the function has counters. Work that is undone does not count: counters are reset to
their values at the mark.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from gdatalog.codegen.function_trees import Function, called, statements
from gdatalog.gpu_ops.cpp import OPERATORS
from gdatalog.gpu_ops.cpp_lines import LanesLoop
from gdatalog.gpu_ops.cpp_types import STATE_NAMES, LoopTypes, assigned_in, names_in
from gdatalog.gpu_ops.flat import flat_of
from gdatalog.gpu_ops.heads import head_of
from gdatalog.gpu_ops.lanes import TILES
from gdatalog.gpu_ops.met_lists import MetLists
from gdatalog.gpu_ops.spread_loops import SpreadLoops, added_in, ends_here
from gdatalog.gpu_ops.steady import Steady
from gdatalog.gpu_ops.teams import ONE_TURN, team_of
from gdatalog.records import dataclass, field


@dataclass(slots=True)
class Translation(SpreadLoops):
    """Translates statements, and what they jump to."""

    comments: dict[int, str] = field(default_factory=dict)  # by line

    def body(self, source: str) -> list[str]:
        """The statements of a module's function, which uses the state of its tile."""
        for number, line in enumerate(source.splitlines(), 1):
            code, mark, comment = line.partition("  # ")
            if mark and code.strip():
                self.comments[number] = comment
        function = ast.parse(source).body[0]
        assert isinstance(function, ast.FunctionDef)
        if self.lanes == TILES[-1] and not self.counters:
            MetLists(function).rewrite()
        function.body = Steady(self.lanes > 1 and not self.counters).move(function.body)
        arrays = {name: f"{'f64' if of == 'double' else of}[]" for name, of in self.arrays.items()}
        self.types = LoopTypes(Function(function.name, function, {}), (), {**arrays})
        self.types.learn()
        if self.lanes > 1 and not self.counters:
            loops = (node for node in ast.walk(function) if isinstance(node, ast.For))
            self._flats = {id(loop): flat for loop in loops if (flat := flat_of(loop))}
        self.entries = bool(self._flats)
        if self.teams and self.lanes == TILES[-1] and not self.counters and not self.buffers:
            self.team = team_of(function)
        self._block(function.body)
        return self.lines

    def declarations(self) -> list[str]:
        """The declarations of the function's variables."""
        found: dict[str, list[str]] = {}
        turns, sizes = set[str](), dict[str, int]()  # which loops declare; lengths of local arrays
        for node in statements(self.types.function.node.body):
            match node:
                case ast.For(target=ast.Name(id=name)):
                    turns.add(name)
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Tuple(elts=values)):
                    sizes[name] = len(values)
        others = turns | sizes.keys() | STATE_NAMES.keys() | self.arrays.keys()
        for name in self.types.names:
            if name not in others:
                found.setdefault(self.types.declared(name), []).append(name)
        lines = [f"    {kind} {', '.join(names)};" for kind, names in found.items()]
        return [*lines, *(f"    i64 {name}[{size}];" for name, size in sizes.items())]

    # -------------------------------------------------------------------------- statements

    def _block(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Pass():
                pass
            case ast.Expr(value=ast.Call(func=ast.Name(id="emit"), args=args)):
                self._emit(args, fresh=False)
            case ast.Expr(value=ast.Call(func=ast.Name(id="emit_fresh"), args=args)):
                self._emit(args, fresh=True)
            case ast.Assign(value=ast.Call(func=ast.Name(id="add_tally"))):
                self._add_tally(node)
            case ast.Expr(
                value=ast.Call(
                    func=ast.Name(id="recode_rows"), args=[_, low, high, *_, ast.Name(id=rows)]
                )
            ) if rows in self.buffers:
                self._room_for_rows(rows, self._wide(low), self._wide(high))
                self._line(self._expr(node.value) + ";")
            case ast.Expr(value=ast.Call(func=ast.Name(id="meet"))) if self.team is not None:
                length = self.team.length
                self._line(
                    f"{length} = met<{self._listed}>(t, work, team_words, team_numbers, {length});"
                )
            case ast.Expr(value=value):
                self._line(self._expr(value) + ";")
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Tuple(elts=values)):
                for at, value in enumerate(values):
                    self._line(f"{name}[{at}] = {self._expr(value)};")
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.Call(func=ast.Name(id="intersect"), args=args) as call,
            ) if self._buffer(args) is not None:
                self._intersect(name, call, args)
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

    def _buffer(self, args: Sequence[ast.expr]) -> int | None:
        """The number of the buffer that an intersection writes, unless it also reads it."""
        first, into = (arg.id if isinstance(arg, ast.Name) else "" for arg in (args[0], args[-1]))
        return self.buffers.index(into) if into in self.buffers and into != first else None

    def _intersect(self, length: str, call: ast.Call, args: Sequence[ast.expr]) -> None:
        """An intersection into the tile's own part of a buffer. If that is too short, the tile
        borrows a longer part and intersects again."""
        number = self._buffer(args)
        assert number is not None
        name, common = self.buffers[number], self._expr(call)
        self._own(name)
        self._line(f"{length} = {common[:-1]}, {name}_n);")
        with self._longer(name, length):
            self._line(f"{length} = {common};")

    def _room_for_rows(self, name: str, low: str, high: str) -> None:
        """Puts rows of bits into the tile's own part of a buffer, or into a longer part that it
        borrows."""
        self._own(name)
        with self._braces(""):
            self._line(f"const i64 needed = ({high} - {low}) * (({high} - {low} + 63) >> 6);")
            with self._longer(name, "needed"):
                pass

    def _own(self, name: str) -> None:
        """The tile returns the part that it has borrowed of a buffer, and uses its own part."""
        self._line(f"return_rooms(t, lent, borrowed, {self.buffers.index(name)});")
        self._line(f"{name} = {name}_own;")

    @contextmanager
    def _longer(self, name: str, length: str) -> Iterator[None]:
        """Borrows a longer part if a buffer's own part is too short."""
        with self._braces(f"if ({length} > {name}_n)"):
            number = self.buffers.index(name)
            given = f"t, run, rooms, classes, lent, borrowed, {number}, {length}"
            self._line(f"const i64 place = borrow({given});")
            self._line("if (place < 0) goto finish;")
            self._line(f"{name} = slice({name}_all, place, {length});")
            yield

    def _several(self, names: Sequence[ast.expr], values: Sequence[ast.expr]) -> None:
        """Simultaneous assignments."""
        targets = [self._expr(name) for name in names]
        sources = [self._expr(value) for value in values]
        if any(target in names_in(value) for target in targets for value in values):
            with self._braces(""):
                for at, (name, source) in enumerate(zip(targets, sources, strict=True)):
                    self._line(f"const {self.types.declared(name)} new{at} = {source};")
                for at, name in enumerate(targets):
                    self._line(f"{name} = new{at};")
            return
        for name, source in zip(targets, sources, strict=True):
            self._line(f"{name} = {source};")

    def _for(self, node: ast.For) -> None:
        assert isinstance(node.target, ast.Name) and isinstance(node.iter, ast.Call)
        name, bounds = node.target.id, [self._expr(arg) for arg in node.iter.args]
        kind = called(node.iter)
        team = self.team is not None and self.team.divides(node)
        if kind == "lanes" and len(bounds) == 4:
            self._shared_lanes(name, bounds, node.body, team)
            return
        low, high = bounds if len(bounds) == 2 else ("0", bounds[0])
        if kind in ("lanes", "units"):
            self._lanes_loop(name, low, high, node.body, team, kind == "units")
            return
        end = high if kind == "turns" else f"{name}_end"
        ends = f"i64 {name} = {low}" + ("" if kind == "turns" else f", {end} = {high}")
        names = [counter.name for counter in self.counters]
        if id(node) in self._flats:
            self._flat(self._flats[id(node)])
            return
        several = self.lanes > 1 and ast.unparse(node.iter) not in ONE_TURN
        head = head_of(node, names) if several and self._inside is None else None
        if head is not None:
            self._looked_up(name, ends, end, head)
            return
        with self._braces(f"for ({ends}; {name} < {end}; ++{name})", loop=True):
            if self._inside is None and len(bounds) == 2 and self.lanes > 1:
                self._may_stop(node.body)
            self._block(node.body)

    def _lanes_loop(
        self,
        name: str,
        low: str,
        high: str,
        body: Sequence[ast.stmt],
        team: bool,
        units: bool = False,
    ) -> None:
        """A loop in which each lane takes turns of its own; after each, all lanes converge to write
        their rows. `team`: a team's threads do. `units`: as many units start at once as there are
        lanes."""
        assert self._inside is None
        first, end = f"{name}_first", f"{name}_end"
        start = f"i64 {first} = {low}" if units else f"i64 {first} = {low}, {end} = {high}"
        step, rank = _strip(team)
        with self._braces(f"for ({start}; {first} < {high if units else end}; {first} += {step})"):
            if units:
                last = f"least_of({first} + LANES, {high}) - 1"
                self._line(f"if (!begin_unit(t, run, work, {first}, {last})) break;")
                self._line("mark_task(work);")
                for counter in self.undone:
                    self._line(f"{counter.kept} = {counter.name};")
                self._line(f"const i64 {end} = {high};")
            self._line(f"const i64 {name} = {first} + {rank};")
            self._turn(f"{name} < {end}", body, [name], team)

    def _shared_lanes(
        self, name: str, bounds: Sequence[str], body: Sequence[ast.stmt], team: bool
    ) -> None:
        """The same for the turns of a unit. Before each strip of turns, one for each lane, the tile
        may give the rest to others."""
        assert self._inside is None
        low, end, unit, base = bounds
        first, behind, (step, rank) = f"{name}_first", f"{name}_first + LANES", _strip(team)
        with self._braces(f"for (i64 {first} = {low}; {first} < {end}; {first} += {step})"):
            alone = "!work.team && " if team else ""  # the tiles of a team share nothing
            with self._braces(f"if ({alone}{end} - {first} > LANES && overdue(t, run, work))"):
                given = f"share_turns(t, run, work, {unit}, {behind} - {base}, {end} - {base})"
                self._line(f"{end} = {base} + {given};")
            self._line(f"const i64 {name} = {first} + {rank};")
            self._turn(f"{name} < {end}", body, [name], team)

    def _turn(
        self, test: str, body: Sequence[ast.stmt], own: Sequence[str], team: bool = False
    ) -> None:
        """A turn of each lane. If it ends in a loop whose turns the lanes share, they converge
        before that. `own`: the variables of which each lane has its own value. `team`: the turns
        of a team's threads; what they lead to is dealt out to its tiles."""
        self._turns += 1
        last = body[-1] if body else None
        shared = last if isinstance(last, ast.For) and _kind(last) == "spread" else None
        head = body[:-1] if shared is not None else body
        if shared is None:
            fresh, added = self._emits(body), added_in(body)
            if fresh is not None or added is not None:
                self._line("gives = false;")
            with self._alone(test):
                self._block(head)
            if added is not None:
                self._add_together(added, "gives", "give_key", "give_count")
            if fresh is not None:
                gives = [f"give{at}" for at in range(len(self.outputs))]
                numbers = [f"number{at}" for at in range(self.numbers)] if fresh else []
                self._write("gives", gives, numbers)
            return
        assert isinstance(shared.target, ast.Name) and isinstance(shared.iter, ast.Call)
        name = shared.target.id
        low, high = shared.iter.args[:2]
        narrow = all(isinstance(at, ast.Name) and at.id in self.types.narrows for at in (low, high))
        kind = "i32" if narrow and ends_here(shared.body) else "i64"
        self._line(f"{kind} {name}_low = 0, {name}_high = 0;")
        with self._alone(test):
            self._block(head)
            for side, bound in zip(("low", "high"), shared.iter.args, strict=False):
                self._line(f"{name}_{side} = {self._expr(bound)};")
        own = [*own, *assigned_in(head)]
        if team:
            with self._dealt(name, shared.body, own) as own:
                self._spread(name, kind, shared, own)
        else:
            self._spread(name, kind, shared, own)

    def _emits(self, body: Sequence[ast.stmt]) -> bool | None:
        """True if fresh rows are output, False if any rows are, None if there are none."""
        nodes = [n.id for s in body for n in ast.walk(s) if isinstance(n, ast.Name)]
        return True if "emit_fresh" in nodes else False if "emit" in nodes else None

    @contextmanager
    def _alone(self, test: str) -> Iterator[None]:
        """Statements that each lane runs on its own, until all lanes converge."""
        self._inside = LanesLoop(f"turn{self._turns}")
        with self._braces(f"if ({test})"):
            yield
        if self._inside.left:
            self._line(f"{self._inside.end}:;")
        self._inside = None


def _strip(team: bool) -> tuple[str, str]:
    """The turns of a loop of lanes that are taken at once, and which of them is this lane's."""
    return ("turns_at_once<LANES>(work)", "own_turn(t, work)") if team else ("LANES", "t.rank")


def _kind(loop: ast.For) -> str:
    """The name of the function that a loop iterates over."""
    assert isinstance(loop.iter, ast.Call)
    return called(loop.iter)
