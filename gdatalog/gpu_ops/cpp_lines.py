"""Writes the lines of a translated function, and the statements that output rows and counts."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from gdatalog.codegen.function_trees import called
from gdatalog.gpu_ops.cpp import TOGETHER, Spoken
from gdatalog.printer.nest_state import STOPPED, Counter
from gdatalog.records import dataclass, field

CHECKS = {"begin_unit", "ended", "late", "share_turns"}  # for a requested stop


@dataclass(slots=True)
class LanesLoop:
    """A loop whose turns lanes take: its label, and how many loops are open inside it."""

    end: str
    depth: int = 0
    left: bool = False  # whether something jumps to the label


@dataclass(slots=True)
class CodeEmitter(Spoken):
    """Writes the lines of a function."""

    numbers: int = 0  # that tell a row among the known ones; 0: all rows are output
    undone: Sequence[Counter] = ()  # the counters to reset if there is no room for rows
    lines: list[str] = field(default_factory=list)
    _depth: int = 1
    _inside: LanesLoop | None = None
    _loops: list[str] = field(default_factory=list)  # the label of a `break`; empty: C++'s own

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

    def _emit(self, args: Sequence[ast.expr], fresh: bool) -> None:
        """Outputs a row. The arguments for a fresh row start with the marks or the set of known
        rows, and the row's numbers there."""
        values = [self._expr(arg) for arg in (args[1:] if fresh else args)]
        count = len(values) - len(self.outputs)
        numbers, columns = values[:count], values[count:]
        self.numbers = max(self.numbers, count)
        if self._inside is None:
            self._write("t.rank == 0", columns, numbers)
            return
        for at, number in enumerate(numbers):
            self._line(f"number{at} = {number};")
        for at, column in enumerate(columns):
            self._line(f"give{at} = {column};")
        self._line("gives = true;")

    def _add_tally(self, node: ast.Assign) -> None:
        """Adds to a table of counts; a diverged lane does so at the end of its turn."""
        key, _, amount = map(self._expr, arguments_of(node)[3:])
        if self._inside is None:
            self._add_together(node, "t.rank == 0", key, amount)
            return
        self._line(f"give_key = {key};")
        self._line(f"give_count = {amount};")
        self._line("gives = true;")

    def _add_together(self, node: ast.Assign, yes: str, key: str, amount: str) -> None:
        self.counts = True
        length = self._expr(node.targets[0])
        counts, values, _, _, low, _ = map(self._expr, arguments_of(node))
        given = counts, values, length, yes, key, low, amount
        if self.team is None:
            self._line(f"{length} = add_tally(t, {', '.join(given)}, work.trouble);")
            return
        more = "team_numbers", *given, "work.trouble"
        self._line(f"{length} = add_of_team<{self._listed}>(t, work, {', '.join(more)});")

    def _write(self, mine: str, columns: Sequence[str], numbers: Sequence[str]) -> None:
        """Writes the lanes' rows. The tile ends if there is no room, or if there are enough rows.

        Fresh rows are marked only once there is room for them, since marked rows are final.
        """
        is_known, adds, given = "is_marked", "mark_first", f"(marks, {', '.join(numbers)})"
        if "known" in self.arrays:
            is_known, adds = (
                ("has_key", "add_key") if len(numbers) == 1 else ("has_pair", "add_pair")
            )
            given = f"(known, known_n, {', '.join(numbers)})"
            self.lengths.add("known")
        with self._braces(""):
            if numbers:
                self._line(f"const bool comes = {mine} && !{is_known}{given};")
            votes = (
                "ballot(t, comes)" if numbers else "1u" if mine != "gives" else "ballot(t, gives)"
            )
            self._line(f"const u32 votes = {votes};")
            with self._braces("if (votes != 0u)"):
                if numbers:
                    self._line("pool_mark(work.pool);")
                back = "".join(f"{each.name} = {each.kept}; " for each in self.undone)
                undone = f"{{ {back}goto finish; }}" if back else "goto finish;"
                self._line(f"if (!room(t, run, work, bits_of(votes))) {undone}")
                if numbers:
                    self._line(f"const bool first = comes && {adds}{given};")
                    self._line("const u32 news = ballot(t, first);")
                news, mine = ("news", "first") if numbers else ("votes", mine)
                with self._braces(f"if ({mine})"):
                    self._line(f"const i64 row = row_of(run, work) + before(t, {news});")
                    for at, (column, kind) in enumerate(zip(columns, self.outputs, strict=True)):
                        self._line(f"out{at}[row] = ({kind})({column});")
                self._line(f"if (!wrote(t, run, work, bits_of({news}))) goto finish;")

    def _may_stop(self, body: Sequence[ast.stmt]) -> None:
        """A check for a requested stop, before a turn or a strip of turns that may be long and does
        not check. All lanes are together."""
        calls = {called(n) for s in body for n in ast.walk(s) if isinstance(n, ast.Call)}
        loops = any(_repeats(n) for s in body for n in ast.walk(s))
        if not calls & CHECKS and (loops or calls & TOGETHER):
            # A team ends between two units: all its tiles, or none.
            alone = "" if self.team is None else "!work.team && "
            with self._braces(f"if ({alone}ended(t, run, work))"):
                self._return(STOPPED)

    def _return(self, status: int) -> None:
        """Discards all work and ends the launch. A diverged lane does so where the tile
        converges."""
        if self._inside is not None:
            self._line(f"work.trouble = {status};")
            self._leave(self._inside)
            return
        self._line(f"stop(run.control, (Reason){status});")
        self._line("goto finish;")

    def _leave(self, inside: LanesLoop) -> None:
        """Ends the lane's turn."""
        inside.left = True
        self._line(f"goto {inside.end};")


def _repeats(node: ast.AST) -> bool:
    """Whether it is a loop of several turns."""
    if isinstance(node, ast.For):
        return isinstance(node.iter, ast.Call) and len(node.iter.args) > 1
    return isinstance(node, ast.While)


def arguments_of(node: ast.Assign) -> Sequence[ast.expr]:
    assert isinstance(node.value, ast.Call)
    return node.value.args
