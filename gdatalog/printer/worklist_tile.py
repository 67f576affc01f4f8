"""Prints a partitioned fixpoint for the tiles of a GPU. A tile takes one split value at a time.

    path(x, y) <- E(x, y).
    path(x, z) <- path(x, y), E(y, z).

The rule passes column x on, so that each of its values is a fixpoint of its own. A tile lists the
rows that it finds for its value (kernels/walk.cuh). A row is one number, whose digits are the
columns without x. Each lane starts from one row of the list, and the lanes share the lists that
these rows lead to. If every rule goes to smaller values, the greatest values have the most work;
tiles start with them, so that the last tasks are short.

Arguments have the names of `worklist.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from gdatalog.plan.effects import falls
from gdatalog.printer.expressions import Unprintable
from gdatalog.printer.layouts import TrieLayout
from gdatalog.printer.module import PrintedPlan
from gdatalog.printer.nest_state import STOPPED
from gdatalog.printer.worklist import Listed, Recursive, RulesPrinter


def print_tiles(
    rules: Sequence[Recursive],
    tries: Sequence[TrieLayout],
    lists: Sequence[Listed],
    splits: str,
    counts: bool,
    intersect: str,
    tile: int,
    counted: bool = False,
) -> PrintedPlan:
    """The loops of a tile; arguments as for `worklist.print_partitioned`."""
    if any(listed.stamps is None for listed in lists):
        raise Unprintable("there are too many possible rows for a bit each")
    printer = _TilePrinter(rules, tries, lists, counts, intersect, tile, counted)
    printer.run(splits)
    return printer.finished(())


class _TilePrinter(RulesPrinter):
    place = "u"  # of the current value

    def run(self, splits: str) -> None:
        text = self.nest.text
        for at, listed in enumerate(self.lists):
            spans = self.given(f"spans_{at}", "int64")
            for column in listed.others:
                text.line(f"low_{at}_{column} = {spans}[{2 * column}]")
                text.line(f"size_{at}_{column} = {spans}[{2 * column + 1}]")
            self.given(f"list_{at}", "int32", "own")
            self.given(f"seen_{at}", "uint32", "own")
        values = self.given("splits", splits)
        text.line(f"total = len({values})")
        with text.block("while next_task(total)"), text.block("for u in turns(start, stop)"):
            with text.block("if not begin_unit(u, u)"):
                text.line("break")
            text.line("mark_task()")
            self.nest.commit()
            if all(falls(rule.join) for rule, _ in self.rules):
                self.place = text.name("u")
                text.line(f"{self.place} = total - 1 - u")
            text.line(f"own = {self.at(values, self.place)}")
            for at in range(len(self.lists)):
                self._begin(at)
            self._follow()
            for at in range(len(self.lists)):
                self._end(at)

    def _begin(self, at: int) -> None:
        """Adds the first rows to the list."""
        listed, text = self.lists[at], self.nest.text
        text.line(f"open_list({at})")
        text.line(f"first_{at} = listed({at})")
        self._rows_of(at, "seeds", listed.seeds)
        text.line(f"done_{at} = first_{at}")
        text.line(f"n_{at} = listed({at})")

    def _rows_of(self, at: int, what: str, dtypes: Sequence[str]) -> None:
        text, name = self.nest.text, f"{what}_{at}"
        starts, row = self.given(f"{name}_starts", "int64"), text.name("i")
        low, high = text.name("l"), text.name("h")
        text.line(f"{low} = {self.at(starts, self.place)}")
        text.line(f"{high} = {self.at(starts, f'{self.place} + 1')}")
        with text.block(f"for {row} in lanes({low}, {high})"):
            others = zip(self.lists[at].others, dtypes, strict=True)
            columns = [self.given(f"{name}_{column}", dtype) for column, dtype in others]
            self.offer(at, [self.at(column, row) for column in columns])

    def offer(self, at: int, keys: Sequence[str]) -> None:
        """Adds a row, given without the split column, unless it is marked."""
        number = ""
        for column, key in zip(self.lists[at].others, keys, strict=True):
            digit = f"{key} - low_{at}_{column}"
            number = f"({number}) * size_{at}_{column} + ({digit})" if number else digit
        self.nest.text.line(f"offer({at}, list_{at}, seen_{at}, {number or '0'})")

    def _columns(self, at: int, row: str) -> dict[int, str]:
        """The columns of a row of the list."""
        text, listed = self.nest.text, self.lists[at]
        names = {listed.split: "own"}
        left = self.at(f"list_{at}", row)
        for place, column in reversed(list(enumerate(listed.others))):
            names[column] = text.name("y")
            if place:
                whole, left = left, text.name("k")
                text.line(f"{names[column]} = {whole}")
                text.line(f"{left} = {names[column]} // size_{at}_{column}")
                digit = f"{names[column]} - {left} * size_{at}_{column}"
                text.line(f"{names[column]} = {digit} + low_{at}_{column}")
            else:
                text.line(f"{names[column]} = {left} + low_{at}_{column}")
        return names

    def _follow(self) -> None:
        """Runs the rules on the rows of the lists, including those added meanwhile."""
        text = self.nest.text
        every = range(len(self.lists))
        with text.block("while " + " or ".join(f"done_{at} < n_{at}" for at in every)):
            with text.block("if ended()"):
                text.line(f"return {STOPPED}")
            for rule, steps in self.rules:
                given = rule.join.given
                assert given is not None
                at, row = self.number[given.relation], text.name("r")
                with text.block(f"for {row} in lanes(done_{at}, n_{at})"):
                    point = self.point(rule, steps, self._columns(at, row), self.offer)
                    point.alone = point.spread = True
                    self.nest.run(point)
            for at in every:
                text.line(f"done_{at} = n_{at}")
                text.line(f"n_{at} = listed({at})")

    def _end(self, at: int) -> None:
        """Emits the new rows, and clears the marks."""
        text, listed = self.nest.text, self.lists[at]
        if self.counts:
            counts = self.given(f"counts_{at}", "int64", "result")
            with text.block("if leads()"):
                text.line(f"put({counts}, {self.place}, n_{at} - first_{at})")
        else:
            row = text.name("j")
            with text.block(f"for {row} in lanes(first_{at}, n_{at})"):
                names = self._columns(at, row)
                self._emit(at, [names[column] for column in range(len(listed.rows))])
        text.line(f"wipe(list_{at}, seen_{at}, n_{at})")

    def _emit(self, at: int, columns: Sequence[str]) -> None:
        """Emits a row. With several relations, the relation's number comes first, and rows are
        padded to one width."""
        dtypes: Sequence[str] = self.lists[at].rows
        if len(self.lists) > 1:
            width = max(len(listed.rows) for listed in self.lists)
            columns = [str(at), *columns, *["0"] * (width - len(columns))]
            dtypes = ["int32", *["int64"] * width]
        for place, dtype in enumerate(dtypes):
            self.given(f"out{place}", dtype, "output")
        self.nest.text.line(f"emit({', '.join(columns)})")
