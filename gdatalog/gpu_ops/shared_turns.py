"""Writes loops whose turns the lanes share: each lane has a range of them."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from gdatalog.codegen.function_trees import called
from gdatalog.gpu_ops.cpp_types import assigned_in, names_in
from gdatalog.gpu_ops.lane_loops import LaneLoops
from gdatalog.gpu_ops.lanes import GROUP
from gdatalog.gpu_ops.steady import calls_in
from gdatalog.records import dataclass


@dataclass(slots=True)
class SharedTurns(LaneLoops):
    """Writes such loops."""

    def _grouped_turns(
        self, name: str, kind: str, body: Sequence[ast.stmt], own: Sequence[str]
    ) -> None:
        """Groups of lanes take the turns of a range each, one range after the other. `kind`: the
        type of positions."""
        before, group = dict(self._renamed), min(self.lanes, GROUP)
        left, rank, step, high = f"{name}_left", f"{name}_rank", f"{name}_step", f"{name}_its_high"
        self._line(f"const u32 {left} = ballot(t, {name}_low < {name}_high);")
        goes = f"{step} < LANES && {left} >> {step} != 0u"
        with self._braces(f"for (int {step} = 0; {goes}; {step} += {self.lanes // group})"):
            self._may_stop(body)
            self._line(f"const int {rank} = {step} + t.rank / {group};")
            self._line(f"const {kind} {high} = from_rank(t, {name}_high, {rank});")
            own_place = f"t.rank % {group}"
            self._line(
                f"const {kind} {name}_its_low = from_rank(t, {name}_low, {rank}) + {own_place};"
            )
            self._theirs(name, rank, body, own)
            self._own_turns(name, high, group, body, own)
        self._renamed = before

    def _own_turns(
        self, name: str, high: str, step: int, body: Sequence[ast.stmt], own: Sequence[str]
    ) -> None:
        """A lane's turns of a range. If a turn begins with a value of a list, that of the next turn
        is loaded before, to hide the latency."""
        match body[0]:
            case ast.Assign(
                targets=[ast.Name(id=value)],
                value=ast.Call(args=[ast.Call(args=[array, ast.Name(id=turn)]) as read]),
            ) if turn == name and called(read) == "at":
                ahead = f"{value}_ahead"
                kind, values = self.types.declared(value), self._expr(array)
                self._line(f"{kind} {ahead} = 0;")
                self._line(f"if ({name}_its_low < {high}) {ahead} = {values}[{name}_its_low];")
                load = f"if {name} + {step} < {high}:\n    {ahead} = at({values}, {name} + {step})"
                body = [*ast.parse(f"{value} = {ahead}\n{load}").body, *body[1:]]
        head = f"for (i64 {name} = {name}_its_low; {name} < {high}; {name} += {step})"
        with self._braces(head):
            self._turn("true", body, [*own, name])

    def _shared_turns(
        self, name: str, kind: str, body: Sequence[ast.stmt], own: Sequence[str]
    ) -> None:
        """The lanes share the turns of their ranges. In each turn, a lane reads the variables of
        the lane whose range has the turn. `kind`: the type of positions."""
        self._line(f"const auto {name}_all = spread_out(t, {name}_low, {name}_high);")
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

    def _long_turns(
        self, name: str, kind: str, body: Sequence[ast.stmt], own: Sequence[str]
    ) -> None:
        """All lanes together take the turns of one long range after the other: then they need not
        find out whose range has a turn."""
        together, before = adds(body), dict(self._renamed)
        least = "LONG" if together else "LONG_FOR_GROUPS"
        left, rank, high = f"{name}_left", f"{name}_rank", f"{name}_its_high"
        votes = f"u32 {left} = ballot(t, {name}_high - {name}_low >= {least})"
        with self._braces(f"for ({votes}; {left} != 0u; {left} &= {left} - 1u)"):
            self._line(f"const int {rank} = lowest_bit({left});")
            self._line(f"const {kind} {high} = from_rank(t, {name}_high, {rank});")
            own_place = "" if together else " + t.rank"
            self._line(
                f"const {kind} {name}_its_low = from_rank(t, {name}_low, {rank}){own_place};"
            )
            self._theirs(name, rank, body, own)
            if together:
                at = f"{name}_at"
                with self._braces(f"for (i64 {at} = {name}_its_low; {at} < {high}; {at} += LANES)"):
                    self._may_stop(body)
                    self._line(f"const i64 {name} = {at} + t.rank;")
                    self._turn(f"{name} < {high}", body, [*own, name])
            else:
                self._own_turns(name, high, self.lanes, body, own)
        self._line(f"if ({name}_high - {name}_low >= {least}) {name}_high = {name}_low;")
        self._renamed = before

    def _turns_of_keys(
        self, name: str, keys: Sequence[str], body: Sequence[ast.stmt], own: Sequence[str]
    ) -> None:
        """If a table has far fewer keys than a lane's range has values, all lanes look the keys up
        in that range, and share none of its turns. Keys that are held need no test."""
        array, values, length = keys
        body = [each for each in body if not calls_in(each) & {"has_held"}]
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


def together(statement: ast.stmt, at: set[str]) -> bool:
    """Whether the lanes converge in a statement of a turn, at one of these calls."""
    return not calls_in(statement).isdisjoint(at)


def adds(body: Sequence[ast.stmt]) -> bool:
    """Whether the lanes converge in a turn to add to a table."""
    return any(together(each, {"add_tally"}) for each in body)
