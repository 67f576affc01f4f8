"""Writes loops whose turns begin with look-ups: each lane does those of a turn of its own."""

from __future__ import annotations

import ast
import re
from abc import abstractmethod
from collections.abc import Sequence

from gdatalog.codegen.function_trees import called
from gdatalog.gpu_ops.cpp_lines import CodeEmitter
from gdatalog.gpu_ops.flat import Flat
from gdatalog.gpu_ops.head_counts import HeadCount
from gdatalog.gpu_ops.heads import Head
from gdatalog.gpu_ops.lanes import TILES
from gdatalog.printer.nest_state import Counter
from gdatalog.records import dataclass, field


@dataclass(slots=True)
class LaneLoops(CodeEmitter):
    """Writes such loops."""

    counters: Sequence[Counter] = ()
    turned: dict[str, str] = field(default_factory=dict)  # arrays of entries, and their offsets
    _turns: int = 0
    _flats: dict[int, Flat] = field(default_factory=dict)  # by the loop

    @abstractmethod
    def _block(self, body: Sequence[ast.stmt]) -> None: ...

    @abstractmethod
    def _statement(self, node: ast.stmt) -> None: ...

    @abstractmethod
    def _turn(self, test: str, body: Sequence[ast.stmt], own: Sequence[str]) -> None: ...

    def _looked_up(self, name: str, ends: str, end: str, head: Head) -> None:
        """A loop whose turns start with look-ups, which each lane does for a turn of its own."""
        self._turns += 1
        out, first = f"loop{self._turns}", f"{name}_first"
        goes, left, mine = f"{name}_goes", f"{name}_left", f"{name}_mine"
        ends = f"i64 {first}" + ends.removeprefix(f"i64 {name}")
        with self._braces(f"for ({ends}; {first} < {end}; {first} += LANES)"):
            self._may_stop(head.rest)
            self._line(f"const i64 {mine} = {first} + t.rank;")
            self._line(f"bool {goes} = false;")
            own = {variable: f"{variable}_mine" for variable in head.variables}
            for variable, its in own.items():
                kind = "i32" if self.types.narrow(variable, head.statements) else None
                self._line(f"{kind or self.types.declared(variable)} {its} = 0;")
            if head.ends is not None:
                self._line(f"int {head.ends}_mine = 0;")
            with self._braces("do"):
                self._line(f"if ({mine} >= {end}) break;")
                if head.ends is not None:
                    self._line(f"{goes} = true;")
                self._loops.append("")
                self._renamed = {**own, name: mine}
                for number, statement in enumerate(head.statements, 1):
                    if isinstance(statement, ast.If):
                        test = f"if {self._condition(statement.test)}"
                        if head.ends is None:
                            self._line(f"{test} break;")
                        else:
                            self._line(f"{test} {{ {head.ends}_mine = {number}; break; }}")
                    else:
                        self._statement(statement)
                self._renamed = {}
                self._loops.pop()
                if head.ends is None:
                    self._line(f"{goes} = true;")
            self.lines[-1] += " while (false);"
            votes = f"u32 {left} = ballot(t, {goes})"
            with self._braces(f"for ({votes}; {left} != 0u; {left} &= {left} - 1u)"):
                self._line(f"const int {name}_rank = lowest_bit({left});")
                self._line(f"const i64 {name} = {first} + {name}_rank;")
                self._line(f"if ({name} >= {end}) goto {out};")
                if head.ends is not None:
                    broadcast = f"from_rank(t, {head.ends}_mine, {name}_rank)"
                    self._line(f"const int {head.ends} = {broadcast};")
                for variable in head.wanted:
                    self._line(f"{variable} = from_rank(t, {own[variable]}, {name}_rank);")
                self._loops.append(out)
                self._block(head.rest)
                self._loops.pop()
        self._line(f"{out}:;")

    def _flat(self, flat: Flat) -> None:
        """Two loops as one, over the entries of the task: each lane takes an entry of its own."""
        self._turns += 1
        goes, first = f"{flat.inner}_goes", f"{flat.inner}_first"
        outer, inner, (low, high) = flat.outer, flat.inner, flat.clip
        stop, counted = "work.task.stop", flat.counted
        head = f"for (i64 {first} = work.task.start; {first} < {stop}; {first} += LANES)"
        with self._braces(head):
            last = f"least_of({first} + LANES, {stop}) - 1"
            self._line(f"if (!begin_unit(t, run, work, {first}, {last})) break;")
            turned = self._turned(flat)
            const = "" if turned else "const "
            self._line(f"{const}i64 {inner} = {self._expr(flat.base)} + {first} + t.rank;")
            self._line(f"i64 {outer} = first;")
            self._line(f"bool {goes} = false;")
            given = [] if counted is None else [self._expr(arg) for arg in counted.call.args]
            for at in (1, 2, 4, 5) if given else ():
                if given[at] in self.types.names:
                    self._line(f"{given[at]} = 0;")
            with self._braces("do"):
                self._line(f"if ({first} + t.rank >= {stop}) break;")
                length = self._length(ast.Name(flat.offsets))
                near = f"{outer} = parent_near(t, {flat.offsets}, first, {length}, {inner});"
                if turned:
                    count = self._length(ast.Name(turned))
                    with self._braces(f"if ({count} > 0)"):
                        self._line(f"{outer} = {turned}[{first} + t.rank];")
                        self._line(f"{inner} = {turned}[({count} >> 1) + {first} + t.rank];")
                    near = f"else {near}"
                self._line(near)
                self._line(f"{low} = {inner};")
                self._line(f"{high} = {inner} + 1;")
                self._looked(flat.statements)
                bounds = [self._expr(bound) for bound in flat.bounds]
                self._line(f"if ({inner} < {bounds[0]} || {inner} >= {bounds[1]}) break;")
                if counted is not None:
                    self._looked(counted.statements)
                self._line(f"{goes} = true;")
            self.lines[-1] += " while (false);"
            self._line(f"first = from_rank(t, {outer}, LANES - 1);")
            if counted is None:
                self._turn(goes, flat.body, [inner, outer])
            else:
                self._count(counted, goes, inner, bool(turned))

    def _call(self, name: str, node: ast.Call, args: Sequence[ast.expr]) -> str:
        found = CodeEmitter._call(self, name, node, args)
        if name == "parent_of":  # entries in another order have theirs beside them
            of = (each for each in self._flats.values() if each.offsets == ast.unparse(args[0]))
            for turned in filter(None, map(self._turned, of)):
                return f"({self._length(ast.Name(turned))} > 0 ? 0 : {found})"
        return found

    @property
    def _short(self) -> bool:
        """Whether positions in lists take 32 bits."""
        return all(
            kind == "i32[]" for name, kind in self.types.names.items() if re.match(r"o\d", name)
        )

    def _turned(self, flat: Flat) -> str:
        """The array of the entries in the order of their values, if the lists of these are to be
        held, so that lanes with the same value stand side by side; empty otherwise."""
        if self.lanes < TILES[-1] or not flat.holds or not self._short:
            return ""
        assert flat.counted is not None
        lists = (ast.unparse(flat.counted.call.args[at]) for at in (0, 3))
        if any(self.types.names[name] != "i32[]" for name in lists):
            return ""
        turned = f"turned{flat.offsets[1:]}"
        self.turned[turned] = flat.offsets
        return turned

    def _count(self, counted: HeadCount, goes: str, mine: str, held: bool) -> None:
        """Counts the common values of each lane's lists, and adds them up. `held`: the second list
        is held, and a lane gets any share of the sum."""
        va, alo, ahi, vb, blo, bhi, *more = (self._expr(arg) for arg in counted.call.args)
        function = f"{called(counted.call)}_of_each"
        if more:
            function += f"<{more.pop()}>"
        if self._short:
            alo, ahi, blo, bhi = (f"(i32){end}" for end in (alo, ahi, blo, bhi))
        lists = [f"read_only({va})", alo, ahi, f"read_only({vb})", blo, bhi, *more]
        if held:
            function, lists = "count_common_held", [*lists, "held", "held_now"]
        self._line(f"{counted.count} = {function}(t, {goes}, {', '.join(lists)});")
        self._turn("true" if held else goes, counted.tail, [mine])

    def _looked(self, statements: Sequence[ast.stmt]) -> None:
        """Look-ups of a lane, which leave the block if the lane has no turn."""
        self._loops.append("")
        for statement in statements:
            if isinstance(statement, ast.If):
                self._line(f"if {self._condition(statement.test)} break;")
            else:
                self._statement(statement)
        self._loops.pop()
