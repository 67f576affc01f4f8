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

from collections.abc import Collection, Iterator, Mapping, Sequence

from gdatalog.errors import Caution, Error, Note, Span
from gdatalog.parser import syntax as s
from gdatalog.planner.check import CheckedRule
from gdatalog.planner.check import walk as w
from gdatalog.planner.check.catalog import Declarations
from gdatalog.planner.check.safety import check_safety
from gdatalog.planner.check.strata import components
from gdatalog.planner.check.wording import own_name
from gdatalog.records import replace
from gdatalog.values import TypeName


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


def _reads(rule: CheckedRule) -> set[str]:
    return {atom.name for atom in rule.atoms}


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
        places = {atom.name: atom.span for rule in safe for atom in rule.atoms} | dict(asked)
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
        for atom in rule.atoms:
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


MOST_ALTERNATIVES = 64  # limit for one rule
MOST_PARTS = 300  # limit of syntax nodes for one rule
COUNTING = frozenset({"count", "sum", "mean"})  # aggregates that depend on multiplicity
WITHOUT = "without `inline` there is no warning"


class RuleExpansion:
    """The expansion of one rule.

    `definitions`: the rules of each inline relation. `cautions`: warnings about atoms that are
    kept.
    """

    def __init__(
        self,
        rule: CheckedRule,
        definitions: Mapping[str, Sequence[CheckedRule]],
        cautions: list[Caution],
    ) -> None:
        self.definitions = definitions
        self.cautions = cautions
        self.types: dict[str, TypeName] = dict(rule.types)
        self.alternatives = 1
        self.parts = 0  # syntax nodes added
        self.made = 0
        kinds = {part.kind for part in w.all_of(s.HeadAggregate, rule.head)}
        self.counting = not kinds.isdisjoint(COUNTING)
        self.aggregated = not kinds <= {"min", "max"}  # the rule may not have `;`

    def literal(self, literal: s.Literal, positive: bool) -> s.Literal:
        match literal:
            case s.And():
                items = [self.literal(item, positive) for item in literal.items]
                return w.conjunction(items, literal.span)
            case s.Or():
                items = [self.literal(item, positive) for item in literal.items]
                return w.disjunction(items, literal.span)
            case s.Not():
                body = self.literal(literal.body, positive=False)
                return body.body if isinstance(body, s.Not) else replace(literal, body=body)
            case s.Atom() if literal.name in self.definitions:
                return self._atom(literal, positive)
            case _:
                self._aggregates(literal)
                return literal

    def _aggregates(self, literal: s.Literal) -> None:
        for atom in w.all_of(s.Atom, literal) if w.all_of(s.Aggregate, literal) else ():
            if atom.name in self.definitions:
                self._made_for(atom, "an aggregate ranges over its rows")
                return

    def _atom(self, atom: s.Atom, positive: bool) -> s.Literal:
        definitions = self.definitions[atom.name]
        if positive and not self._may_expand(definitions):
            self._made_for(atom, "an aggregate ranges over its rows")
            return atom
        if self.alternatives * len(definitions) > MOST_ALTERNATIVES:
            why = f"this rule would have more than {MOST_ALTERNATIVES} alternatives"
            self._made_for(atom, why)
            return atom
        parts = self.parts + sum([len(w.walk(each.body)) for each in definitions])
        if parts > MOST_PARTS:
            self._made_for(atom, "this rule would be too long")
            return atom
        self.parts = parts
        self.alternatives *= len(definitions)
        found = [self._instance(definition, atom) for definition in definitions]
        return w.disjunction(found, atom.span) if len(found) > 1 else found[0]

    def _made_for(self, atom: s.Atom, why: str) -> None:
        message = f"`{atom.name}` is declared inline, but is computed for this atom: {why}"
        self.cautions.append(Caution(message, atom.span, WITHOUT, cause="made"))

    def _may_expand(self, definitions: Sequence[CheckedRule]) -> bool:
        """Whether the aggregates of the head stay the same after expansion."""
        if not self.aggregated:
            return True
        if len(definitions) > 1 or w.branching(definitions[0].body) is not None:
            return False
        return not self.counting or _adds_no_variable(definitions[0])

    def _instance(self, definition: CheckedRule, atom: s.Atom) -> s.Literal:
        """The body of one rule in place of an atom."""
        head, body = definition.head, definition.body
        exported = {
            name for part in w.walk(body) if isinstance(part, s.Aggregate) for name in part.exports
        }
        put: dict[str, s.Expr] = {}
        equal: list[tuple[s.Expr, s.Expr]] = []
        for own, given in zip(head.args, atom.args, strict=True):
            simple = isinstance(given, s.Var | s.Const | s.Param)
            if (
                isinstance(own, s.Var)
                and own.name not in put
                and own.name not in exported
                and simple
            ):
                put[own.name] = given
            elif not isinstance(own, s.Const) or own != given:
                equal.append((given, own))
        for name in dict.fromkeys((*w.variables(head), *w.variables(body))):
            if name not in put:
                self.made += 1
                new = f"{own_name(name)}~i{self.made}"
                put[name] = s.Var(new)
                self.types[new] = definition.types[name]
        items = [] if body is None else [_substituted(body, put)]
        for given, own in equal:
            items.append(s.Compare(given, (("=", _substituted(own, put)),), atom.span))
        return (
            w.conjunction(items, atom.span) if items else s.Test(s.Const("bool", True, atom.span))
        )


def _substituted(node: w.N, put: Mapping[str, s.Expr]) -> w.N:
    if isinstance(node, s.Var):
        new = put[node.name]
        return replace(new, span=node.span)  # type: ignore[return-value]  # any expression for a variable
    changed = w.rebuild(node, lambda part: _substituted(part, put))
    if isinstance(changed, s.Aggregate):
        names = {old: new.name for old, new in put.items() if isinstance(new, s.Var)}
        return replace(
            changed,
            exports=tuple([names[name] for name in changed.exports]),
            locals=tuple([names[name] for name in changed.locals]),
        )
    return changed


def _adds_no_variable(definition: CheckedRule) -> bool:
    """Whether all variables are in the head, so that an expanded atom keeps its multiplicity."""
    head, body = definition.head, definition.body
    if not all(isinstance(arg, s.Var) for arg in head.args) or body is None:
        return False
    return w.variables(head).keys() >= set(_binding(body))


def _binding(node: w.Node) -> Iterator[str]:
    """The variables that a literal can bind, without those local to negations and aggregates."""
    for part in w.walk(node, s.Not, s.Aggregate):
        if isinstance(part, s.Var):
            yield part.name
        elif isinstance(part, s.Aggregate):
            yield from part.exports
