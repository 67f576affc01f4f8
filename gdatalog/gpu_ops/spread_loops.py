"""Writes loops whose turns the lanes of a tile share: those of the ranges that each lane has."""

from __future__ import annotations

import ast
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from gdatalog.codegen.function_trees import called
from gdatalog.gpu_ops.cpp_types import assigned_in, names_in
from gdatalog.gpu_ops.lane_loops import LaneLoops
from gdatalog.gpu_ops.lanes import GROUP
from gdatalog.gpu_ops.steady import calls_in
from gdatalog.records import dataclass


@dataclass(slots=True)
class SpreadLoops(LaneLoops):
    """Writes such loops."""

    @abstractmethod
    def _alone(self, test: str) -> AbstractContextManager[None]: ...

    def _spread(self, name: str, kind: str, loop: ast.For, own: Sequence[str]) -> None:
        """The lanes share the turns of their ranges. `kind`: the type of positions."""
        assert isinstance(loop.iter, ast.Call)
        if loop.iter.args[2:]:
            keys = [self._expr(arg) for arg in loop.iter.args[2:]]
            self._turns_of_keys(name, keys, loop.body, own)
        if _held(loop.body):
            self._long_turns(name, kind, loop.body, own)
            self._grouped_turns(name, kind, loop.body, own)
            return
        spread, places = "spread_out", kind
        if ends_here(loop.body):
            self._long_turns(name, kind, loop.body, own)
            spread, places = "spread_short", "i32"
        self._line(f"const auto {name}_all = {spread}(t, {name}_low, {name}_high);")
        self._shared_turns(name, places, loop.body, own)

    @contextmanager
    def _dealt(
        self, name: str, body: Sequence[ast.stmt], own: Sequence[str]
    ) -> Iterator[Sequence[str]]:
        """Deals the ranges of a team's threads out to its tiles, and the variables that belong to
        them, which are yielded."""
        deal, row, before = f"{name}_deal", f"{name}_row", dict(self._renamed)
        places = "team_ends, team_origins"
        ends = f"{name}_low, {name}_high"
        given = f"t, run, work, team_words, team_numbers, team_sums, {places}, {ends}"
        self._line(f"Deal {deal} = deal({given});")
        found = [each for each in dict.fromkeys(own) if any(each in names_in(n) for n in body)]
        for number, each in enumerate(found):
            self._line(f"put_dealt(work, team_dealt, {number}, {self._renamed.get(each, each)});")
        self._line("dealt_all(work);")
        self._line(f"if ({deal}.ends) break;")
        self._line(f"int {row} = 0;")
        hand = f"next_of_hand(t, work, team_numbers, {places}, {deal}, {ends}, {row})"
        with self._braces(f"while ({hand})"):
            for number, each in enumerate(found):
                mine = self._renamed.get(each, each)
                value = f"dealt_value(work, team_dealt, {number}, {row}, {mine})"
                self._line(f"{self.types.declared(each)} {each}_dealt = {value};")
                self._renamed[each] = f"{each}_dealt"
            self.dealt = max(self.dealt, len(found))
            yield found
        self._renamed = before

    def _shared_turns(
        self, name: str, kind: str, body: Sequence[ast.stmt], own: Sequence[str]
    ) -> None:
        """In each turn, a lane reads the variables of the lane whose range has the turn. `kind`:
        the type of a turn's place among those of all lanes."""
        before = dict(self._renamed)
        at, place, rank, total = f"{name}_at", f"{name}_place", f"{name}_rank", f"{name}_all.total"
        with self._braces(f"for ({kind} {at} = 0; {at} < {total}; {at} += LANES)"):
            self._may_stop(body)
            self._line(f"const {kind} {place} = {at} + t.rank;")
            self._line(f"const int {rank} = owner_of(t, {name}_all, {place});")
            self._line(f"const i64 {name} = from_rank(t, {name}_all.origin, {rank}) + {place};")
            self._theirs(name, rank, body, own)
            self._turn(f"{place} < {total}", body, [*own, name])
        self._renamed = before

    def _grouped_turns(
        self, name: str, kind: str, body: Sequence[ast.stmt], own: Sequence[str]
    ) -> None:
        """Groups of lanes take the turns of a range each, one range after the other: to find out
        whose range has a turn would take as long as the turn, which looks a value up in a list that
        is held. `kind`: the type of positions."""
        before, group = dict(self._renamed), min(self.lanes, GROUP)
        left, rank, step, high = f"{name}_left", f"{name}_rank", f"{name}_step", f"{name}_its_high"
        self._line(f"const u32 {left} = ballot(t, {name}_low < {name}_high);")
        goes = f"{step} < LANES && {left} >> {step} != 0u"
        with self._braces(f"for (int {step} = 0; {goes}; {step} += {self.lanes // group})"):
            self._may_stop(body)
            self._line(f"const int {rank} = {step} + t.rank / {group};")
            self._line(f"const {kind} {high} = from_rank(t, {name}_high, {rank});")
            low = f"from_rank(t, {name}_low, {rank}) + t.rank % {group}"
            self._line(f"const {kind} {name}_its_low = {low};")
            self._theirs(name, rank, body, own)
            self._own_turns(name, high, group, body, own)
        self._renamed = before

    def _own_turns(
        self, name: str, high: str, step: int, body: Sequence[ast.stmt], own: Sequence[str]
    ) -> None:
        """A lane's turns of a range, which begin with a value of a list. That of the next turn is
        loaded before, to hide the latency."""
        match body[0]:
            case ast.Assign(
                targets=[ast.Name(id=value)], value=ast.Call(args=[ast.Call(args=[array, _])])
            ):
                ahead, values = f"{value}_ahead", self._expr(array)
            case _:
                raise AssertionError(ast.unparse(body[0]))
        self._line(f"{self.types.declared(value)} {ahead} = 0;")
        self._line(f"if ({name}_its_low < {high}) {ahead} = {values}[{name}_its_low];")
        load = f"if {name} + {step} < {high}:\n    {ahead} = at({values}, {name} + {step})"
        body = [*ast.parse(f"{value} = {ahead}\n{load}").body, *body[1:]]
        head = f"for (i64 {name} = {name}_its_low; {name} < {high}; {name} += {step})"
        with self._braces(head):
            self._turn("true", body, [*own, name])

    def _long_turns(
        self, name: str, kind: str, body: Sequence[ast.stmt], own: Sequence[str]
    ) -> None:
        """All lanes together take the turns of one long range after the other: then they need not
        find out whose range has a turn."""
        before, added, held = dict(self._renamed), added_in(body), _held(body)
        least = "LONG_FOR_GROUPS" if held else "LONG"
        left, rank, high = f"{name}_left", f"{name}_rank", f"{name}_its_high"
        votes = f"u32 {left} = ballot(t, {name}_high - {name}_low >= {least})"
        with self._braces(f"for ({votes}; {left} != 0u; {left} &= {left} - 1u)"):
            self._line(f"const int {rank} = lowest_bit({left});")
            self._line(f"const {kind} {high} = from_rank(t, {name}_high, {rank});")
            low = f"const {kind} {name}_its_low = from_rank(t, {name}_low, {rank}) + t.rank;"
            self._line(low)
            self._theirs(name, rank, body, own)
            if added is not None:
                self._add_several(name, body, added)
            elif held:
                self._own_turns(name, high, self.lanes, body, own)
            else:
                start = f"i64 {name} = {name}_its_low"
                with self._braces(f"for ({start}; {name} < {high}; {name} += LANES)"):
                    self._turn("true", body, [*own, name])
        self._line(f"if ({name}_high - {name}_low >= {least}) {name}_high = {name}_low;")
        self._renamed = before

    def _add_several(self, name: str, body: Sequence[ast.stmt], added: ast.Assign) -> None:
        """Turns of one range that add to a table: each lane begins several, and then adds for all
        of them, so that additions do not wait for each other."""
        at, high = f"{name}_at", f"{name}_its_high"
        head = f"for (i64 {at} = {name}_its_low; {at} - t.rank < {high}; {at} += AT_ONCE * LANES)"
        with self._braces(head):
            self._may_stop(body)
            self._line("bool gave[AT_ONCE];")
            self._line("i64 gave_key[AT_ONCE], gave_count[AT_ONCE];")
            self.lines.append("#pragma unroll")
            with self._braces("for (int once = 0; once < AT_ONCE; ++once)"):
                self._turns += 1
                self._line(f"const i64 {name} = {at} + once * LANES;")
                self._line("gives = false;")
                with self._alone(f"{name} < {high}"):
                    self._block(body)
                self._line("gave[once] = gives;")
                self._line("gave_key[once] = give_key;")
                self._line("gave_count[once] = give_count;")
            self._add_together(added, "gave", "gave_key", "gave_count")

    def _turns_of_keys(
        self, name: str, keys: Sequence[str], body: Sequence[ast.stmt], own: Sequence[str]
    ) -> None:
        """If a table has far fewer keys than a lane's range has values, all lanes look the keys up
        in that range, and share none of its turns. Keys that are held need no test."""
        array, values, length = keys
        body = [each for each in body if not together(each, {"has_held"})]
        before = dict(self._renamed)
        left, rank, at, few = f"{name}_left", f"{name}_rank", f"{name}_at", f"{name}_few"
        self._line(f"const bool {few} = few_keys({name}_low, {name}_high, {length});")
        votes = f"u32 {left} = ballot(t, {few})"
        with self._braces(f"for ({votes}; {left} != 0u; {left} &= {left} - 1u)"):
            self._line(f"const int {rank} = lowest_bit({left});")
            for side in ("low", "high"):
                self._line(f"const i64 {name}_its_{side} = from_rank(t, {name}_{side}, {rank});")
            self._theirs(name, rank, body, own)
            with self._braces(f"for (i64 {at} = 0; {at} < {length}; {at} += LANES)"):
                self._line(f"i64 {name} = -1;")
                key = f"+{values}[{at} + t.rank]"
                found = f"find({array}, {name}_its_low, {name}_its_high, {key})"
                self._line(f"if ({at} + t.rank < {length}) {name} = {found};")
                self._turn(f"{name} >= 0", body, [*own, name])
        self._line(f"if ({few}) {name}_high = {name}_low;")
        self._renamed = before

    def _theirs(self, name: str, rank: str, body: Sequence[ast.stmt], own: Sequence[str]) -> None:
        """Reads the own variables of the lane whose range has the turn."""
        before, assigned = dict(self._renamed), assigned_in(body)
        for variable in dict.fromkeys(own):
            if any(variable in names_in(node) for node in body):
                theirs = f"from_rank(t, {before.get(variable, variable)}, {rank})"
                mine = f"{variable}_{name}"
                kind = self.types.declared(variable)
                const = "" if variable in assigned else "const "
                self._line(f"{const}{kind} {mine} = {theirs};")
                self._renamed[variable] = mine


def _held(body: Sequence[ast.stmt]) -> bool:
    """Whether turns look a value up in a list that is held (`met_lists.py`)."""
    return any(together(each, {"has_held"}) for each in body)


def ends_here(body: Sequence[ast.stmt]) -> bool:
    """Whether turns of a range lead to no others, and give no rows: then lanes take the turns of a
    long range together."""
    return not any(together(each, {"emit", "emit_fresh", "spread"}) for each in body)


def together(statement: ast.stmt, at: set[str]) -> bool:
    """Whether the lanes converge in a statement of a turn, at one of these calls."""
    return not calls_in(statement).isdisjoint(at)


def added_in(body: Sequence[ast.stmt]) -> ast.Assign | None:
    """The statement that adds to a table of counts, if there is one."""
    nodes = [node for statement in body for node in ast.walk(statement)]
    found = [
        node
        for node in nodes
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and called(node.value) == "add_tally"
    ]
    assert len(found) < 2
    return found[0] if found else None
