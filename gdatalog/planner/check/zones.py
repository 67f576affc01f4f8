"""Zones of times: of every column of timestamps, whether it is naive or which zone it has.

Loaded columns have the zones of their data. A column of rules has the zone of what its rules give
it, UTC where these differ. Naive times are never compared with times that have a zone. Literals,
parameters and text files stand for either.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from gdatalog.errors import Error, TypeMismatchError
from gdatalog.parser import syntax as s
from gdatalog.plan.functions import CALENDAR_UNITS, CLOCK_UNITS
from gdatalog.planner.check import CheckedRule, Schema, Stratum
from gdatalog.planner.check.walk import LEAVES, Node, all_of, rebuild, variables, walk
from gdatalog.planner.check.wording import show
from gdatalog.records import dataclass, replace
from gdatalog.storage.kinds import NAIVE, UTC, tidy, zone_at, zoned

Zone = str | None
Zones = dict[str, list[Zone]]  # of the columns of each relation
# An expression, another one or a column's zone, and the words for that.
Pair = tuple[Node, Node | Zone, str]
# Functions of the day and the time of day.
_LOCAL = frozenset(
    {"year", "month", "day", "weekday", "hour", "minute", "second", "format_time"}
    | {f"date_trunc_{unit}" for unit in (*CLOCK_UNITS, *CALENDAR_UNITS)}
)
_KEEPING = frozenset({"min", "max", "any_value", "lag", "lead", "median", "quantile", "mode"})


def with_zones(
    schemas: Mapping[str, Schema],
    strata: Sequence[Stratum],
    facts: Collection[str],
    errors: list[Error],
) -> tuple[dict[str, Schema], tuple[Stratum, ...]]:
    """The schemas with the kinds that columns have when they leave, and rules that compute parts of
    times in their zone. Rows of rules and facts have no dtype of their own, so the columns of their
    relations keep zones only."""
    rules = [rule for stratum in strata for rule in stratum.rules]
    zones: Zones = {
        name: [zone_at(schema.kinds, at) for at in range(schema.arity)]
        for name, schema in schemas.items()
    }
    scopes = [_Scope(rule, zones, schemas) for rule in rules if _has_times(rule, schemas)]
    while sum(map(_Scope.derive, scopes)):
        pass
    for scope in scopes:
        errors += list(scope.conflicts())[:1]
    derived = {rule.head.name for rule in rules}.union(facts)
    found_schemas = {
        name: replace(schema, kinds=tidy(None if zone is None else zoned(zone) for zone in found))
        if name in derived
        else schema
        for (name, schema), found in zip(schemas.items(), zones.values(), strict=True)
    }
    local = [
        replace(
            stratum,
            rules=tuple(
                [
                    _Scope(rule, zones, schemas).local() if _has_times(rule, schemas) else rule
                    for rule in stratum.rules
                ]
            ),
        )
        for stratum in strata
    ]
    return found_schemas, tuple(local)


def _has_times(rule: CheckedRule, schemas: Mapping[str, Schema]) -> bool:
    return "timestamp" in {*rule.types.values(), *schemas[rule.head.name].types}


def common(one: Zone, other: Zone) -> Zone:
    """The zone of times of both; the first if only one of them is naive, which is an error."""
    if one is None or other is None or one == other:
        return other if one is None else one
    return one if NAIVE in (one, other) else UTC


def _words(zone: str) -> str:
    return f"a timestamp with the zone {zone}" if zone else "a timestamp without a zone"


def _solved(node: Node | Zone) -> Iterable[str]:
    """The variables that an equation may bind of its side."""
    if isinstance(node, s.Var):
        return (node.name,)
    return variables(node) if isinstance(node, s.FunctionCall) and node.name in "+-" else ()


@dataclass(slots=True, eq=False)
class _Scope:
    """A rule; its variables' zones are those of the columns that bind them."""

    rule: CheckedRule
    zones: Zones
    schemas: Mapping[str, Schema]

    def local(self) -> CheckedRule:
        """The rule with parts of times, such as hours, in their zone."""
        known = self._known()

        def turned(node: Any) -> Any:
            if type(node) in LEAVES:
                return node
            zone = UTC
            if isinstance(node, s.FunctionCall) and (name := node.name) in _LOCAL:
                zone = self.of(node.args[0], known) or UTC
            node = rebuild(node, turned)
            if zone == UTC:
                return node
            text = s.Const("symbol", zone, node.span)
            first = s.FunctionCall("local_time", (node.args[0], text), node.span)
            node = replace(node, args=(first, *node.args[1:]))
            back = name.startswith("date_trunc")
            return s.FunctionCall("utc_time", (node, text), node.span) if back else node

        rule = self.rule
        body = None if rule.body is None else turned(rule.body)
        head = turned(rule.head)
        return replace(rule, head=head, body=body)

    def derive(self) -> bool:
        """Gives the columns of the head their zones; whether that changes any."""
        head, known = self.rule.head, self._known()
        own = self.zones[head.name]
        found = [
            common(zone, self.of(arg, known)) for zone, arg in zip(own, head.args, strict=True)
        ]
        kinds = self.schemas[head.name].types
        found = [z if kind == "timestamp" else None for z, kind in zip(found, kinds, strict=True)]
        changed, own[:] = found != own, found
        return changed

    def _known(self) -> dict[str, Zone]:
        known: dict[str, Zone] = {}
        before = None
        while before != known:  # an equation may use the variables of a later one
            before = dict(known)
            for one, other, _ in self._bound():
                for node, zone in ((one, other), (other, one)):
                    value = zone if isinstance(zone, str) else self.of(zone, known)
                    for name in _solved(node):
                        if self.rule.types[name] == "timestamp":
                            known[name] = common(known.get(name), value)
        return known

    def _bound(self) -> Iterator[Pair]:
        """What the literals outside a negation bind to each other."""
        for literal in walk(self.rule.body, s.Not):
            yield from self._equal(literal)

    def _equal(self, literal: Node, binding: bool = True) -> Iterator[Pair]:
        if isinstance(literal, s.Atom):
            for arg, zone in zip(literal.args, self.zones.get(literal.name, ()), strict=False):
                yield arg, zone, f"a column of `{literal.name}`"
        if isinstance(literal, s.Compare):
            left = literal.first
            for op, right in literal.rest:
                if op == "=" or not binding:
                    yield right, left, show(left)
                left = right

    def _compared(self) -> Iterator[Pair]:
        """All that is compared."""
        body = self.rule.body
        for literal in walk(body):
            yield from self._equal(literal, binding=False)
        for member in all_of(s.Member, body):
            yield from ((value, member.item, show(member.item)) for value in member.values)
        for distinct in all_of(s.Distinct, body):
            yield from (
                (arg, distinct.args[0], show(distinct.args[0])) for arg in distinct.args[1:]
            )
        for call in all_of(s.FunctionCall, self.rule.head, body):
            if call.name in ("min", "max", "-", "seconds_between"):
                yield from ((arg, call.args[0], show(call.args[0])) for arg in call.args[1:])

    def of(self, expr: Node | None, known: Mapping[str, Zone]) -> Zone:
        """The zone of an expression."""
        match expr:
            case s.Var(name):
                return known.get(name)
            case s.FunctionCall("min" | "max", args):
                zone: Zone = None
                for arg in args:
                    zone = common(zone, self.of(arg, known))
                return zone
            case s.FunctionCall("+", (left, right)):
                return common(self.of(left, known), self.of(right, known))
            case s.FunctionCall("-", (left, right)):
                # between two times there is a duration
                return self.of(left, known) if self.of(right, known) is None else None
            case s.FunctionCall("if", (_, left, right)):
                return common(self.of(left, known), self.of(right, known))
            case s.FunctionCall(name, (time,)) if name.startswith("date_trunc"):
                return self.of(time, known)
            case s.HeadAggregate("top", (_, item, *_)):
                return self.of(item, known)
            case s.Aggregate(kind, targets) | s.HeadAggregate(kind, targets) if kind in _KEEPING:
                return self.of(targets[0], known)
        return None

    def conflicts(self) -> Iterator[Error]:
        head, known = self.rule.head, self._known()
        pairs = [*self._compared()]
        own = zip(head.args, self.zones[head.name], strict=True)
        pairs += [(arg, zone, f"a column of `{head.name}`") for arg, zone in own]
        for node, other, words in pairs:
            mine = self.of(node, known)
            its = other if isinstance(other, str) else self.of(other, known)
            if mine is not None and its is not None and mine != its and NAIVE in (mine, its):
                message = f"{show(node)} is {_words(mine)}, but {words} is {_words(its)}"
                hint = "load both with a zone or both without: in pandas, "
                hint += '.dt.tz_localize("Europe/Berlin") gives one, .dt.tz_localize(None) takes it'
                yield TypeMismatchError(message, node.span, hint=hint)
