"""Inline relations: their rules replace the atoms that read them, as in Soufflé.

With `.decl near(x: int, y: int) inline` and `near(x, y) <- x <= y + 2, y <= x + 2.` the atom
`near(a, b)` becomes `a <= b + 2, b <= a + 2`. Several rules become a `;`, a negated atom a negated
group. So a rule of an inline relation may leave variables of its head unbound. If it binds them
all, the relation can also be queried by name.

A relation is evaluated after all, with a warning, if it is recursive, aggregates in its head, has
data or facts, or is an output; and where an aggregate ranges over its rows, because the variables
of its rules would count.

Variables of an inlined rule get fresh names; those of its head become the atom's arguments. Under
an aggregate that counts bindings, an atom is kept if its rule has variables that are not in the
head.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from gdatalog.errors import Caution, Error, Note, Span
from gdatalog.parser import syntax as s
from gdatalog.planner.check import CheckedRule
from gdatalog.planner.check import walk as w
from gdatalog.planner.check.catalog import Declarations
from gdatalog.planner.check.expansion import WITHOUT, RuleExpansion
from gdatalog.planner.check.safety import check_safety
from gdatalog.planner.check.strata import components
from gdatalog.records import replace


def declared_inline(program: s.Program) -> dict[str, Span]:
    """The relations that are declared inline, and where."""
    return {
        name: statement.span
        for statement in program.statements
        if isinstance(statement, s.Decl) and "inline" in statement.qualifiers
        for name in statement.names
    }


def _within(inner: Span, outer: Span) -> bool:
    return inner.source is outer.source and outer.start <= inner.start <= outer.end


def _atoms(rule: CheckedRule) -> list[s.Atom]:
    return w.all_of(s.Atom, *rule.head.args, rule.body)


def _reads(rule: CheckedRule) -> set[str]:
    return {atom.name for atom in _atoms(rule)}


class Inlining:
    """The expansion of a program's rules.

    `definitions`: the expanded rules of each inline relation. `made`: why other relations are not
    expanded. `unbound`: inline relations that cannot be evaluated by themselves, and the error.
    """

    def __init__(
        self,
        rules: Sequence[CheckedRule],
        facts: Collection[str],
        catalog: Declarations,
        spans: Mapping[str, Span],
    ) -> None:
        """`facts`: the relations with facts. `spans`: those that are declared inline, and where."""
        self.rules = rules
        self.spans = spans
        self.cautions: list[Caution] = []
        self.definitions: dict[str, list[CheckedRule]] = {}
        self.made: dict[str, Note] = {}
        self.unbound: dict[str, Error] = {}
        self.by_name = {name: [r for r in rules if r.head.name == name] for name in spans}
        done_otherwise = {name: d.kind for d in catalog.directives for name in d.names}
        waiting: list[str] = []
        for name, own in self.by_name.items():
            if not own:
                continue
            if name in done_otherwise:
                self._made(name, f".{done_otherwise[name]} names it")
            elif catalog.relations[name].has_data:
                self._made(name, "it has data")
            elif any(rule.aggregated for rule in own):
                self._made(name, "its rules aggregate in the head")
            elif name in facts:
                self._made(name, "it has facts beside its rules")
            else:
                waiting.append(name)
        self._define(waiting)

    def expanded(self, asked: Mapping[str, Span], errors: list[Error]) -> list[CheckedRule]:
        """The rules, expanded and checked for safety, without those of unsafe inline relations.

        `asked`: the relations that queries name, and where.
        """
        safe: list[CheckedRule] = []
        unsafe: dict[str, Error] = {}
        for rule, before in zip(self._all(), self.rules, strict=True):
            wrong: list[Error] = []
            check_safety(rule, wrong)
            if rule.head.name not in self.definitions:
                errors += [self._placed(error, before) for error in wrong]
            elif wrong:
                unsafe.setdefault(rule.head.name, wrong[0])
            safe.append(rule)
        safe = [rule for rule in safe if rule.head.name not in unsafe]
        places = {atom.name: atom.span for rule in safe for atom in _atoms(rule)} | dict(asked)
        for name, error in unsafe.items():
            if name in places:
                message = f"all rows of `{name}` are needed here, though it is inline"
                error.notes = (*error.notes, Note(message, places[name]))
                errors.append(error)
        self.unbound = unsafe
        return safe

    def _placed(self, error: Error, rule: CheckedRule) -> Error:
        """An error in a rule of an inline relation, with a note of the place that reads the
        relation."""
        span = error.span
        if rule.head.name in self.made:
            error.notes = (*error.notes, self.made[rule.head.name])
        if span is None or _within(span, rule.span):
            return error
        for atom in _atoms(rule):
            if any(_within(span, own.span) for own in self.definitions.get(atom.name, ())):
                note = Note(f"`{atom.name}` is inline, and is read here", atom.span)
                error.notes = (*error.notes, note)
                return error
        return error

    def _define(self, waiting: Collection[str]) -> None:
        """Expands relations after those that they read, and none that is recursive."""
        every = {name: set().union(*map(_reads, self.by_name[name])) for name in waiting}
        reads = {name: sorted(own.intersection(waiting)) for name, own in every.items()}
        for group in components(reads):
            for name in group:
                if len(group) > 1 or name in reads[name]:
                    self._made(name, "it is recursive")
                else:
                    self.definitions[name] = list(map(self.rule, self.by_name[name]))

    def _all(self) -> list[CheckedRule]:
        """All rules, in their order."""
        done = {id(old): new for name, new_rules in self.definitions.items()
                for old, new in zip(self.by_name[name], new_rules, strict=True)}  # fmt: skip
        return [done.get(id(rule)) or self.rule(rule) for rule in self.rules]

    def rule(self, rule: CheckedRule) -> CheckedRule:
        if rule.body is None or self.definitions.keys().isdisjoint(_reads(rule)):
            return rule
        expansion = RuleExpansion(rule, self.definitions, self.cautions)
        body = expansion.literal(rule.body, positive=True)
        return replace(rule, body=body, types=expansion.types)

    def _made(self, name: str, why: str) -> None:
        message = f"`{name}` is declared inline, but is computed all the same: {why}"
        self.made[name] = Note(message, self.spans[name])
        self.cautions.append(Caution(message, self.spans[name], WITHOUT))
