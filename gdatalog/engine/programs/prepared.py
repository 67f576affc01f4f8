"""Caches parsed, checked and planned programs.

A text is parsed, checked and planned once while its inputs stay the same. The checks depend on the
statements, the database's rules, the schemas of its data, and the types of parameters. A plan
depends on the relations whose statistics the planner read. If they are small, it also serves other
relations with the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import chain
from typing import Any, TypeVar
from weakref import ref

from gdatalog.account import spending
from gdatalog.cancellation import LONG_TEXT, apart
from gdatalog.engine.programs.recent import Recent
from gdatalog.engine.programs.texts import Outline
from gdatalog.errors import Caution, Error
from gdatalog.parser import Program, parse_with_cautions
from gdatalog.parser.syntax import Const, Or, Statement
from gdatalog.plan import RulePlan, Version
from gdatalog.planner.check import Checked, CheckedRule, Schema, Stratum
from gdatalog.planner.check.validity import VALID, Validity, check_over, check_with
from gdatalog.planner.check.walk import walk
from gdatalog.planner.order.search import Orders
from gdatalog.planner.passes import PassNotes
from gdatalog.planner.program import rewritten
from gdatalog.planner.rewrite.dead_variables import SplitStratum
from gdatalog.planner.statistics import Looked, RelationStatistics, Statistics, known_value
from gdatalog.records import dataclass, field
from gdatalog.storage import parts
from gdatalog.storage.pipes import Pipes
from gdatalog.storage.relation import Relation
from gdatalog.storage.row_store import Fingerprint, RowStore
from gdatalog.storage.symbols import SymbolTable
from gdatalog.threads import uncollected
from gdatalog.values import ParamType, Value

# The most characters of the texts of cached programs. A character takes about 40 bytes; statements
# that the database keeps count for each text that is checked with them.
CHECKED = 4_000_000
SHIFT = 10  # a rule is planned again when a number of rows has changed by this factor
SIMILAR = 4  # cached plans of one rule, for parameters of different selectivity
LIKE = 8  # parameters share a plan if their selectivity differs by at most this factor
MOST_FACTS = 4096  # cached facts about strata
MANY_VARIABLES = 7  # rules with so many are planned aside: there are many orders to compare
LONGEST = 20_000  # characters: longer texts hold data and are rarely repeated

Made = TypeVar("Made")
RelationOf = Callable[[str], Relation]
Splitting = Callable[[RelationOf], SplitStratum | None]
# Relations by name; those with few rows have a fingerprint, which others with the same rows share.
Held = tuple[tuple[str, ref[RowStore], Fingerprint | None], ...]
# A rule's plan, the relations that it was made of, and the selectivity of its parameters.
PreparedPlan = tuple[RulePlan, Held, tuple[Looked, ...]]


class Plans:
    """Caches the plans of a checked program's rules until their relations change."""

    def __init__(self, orders: Orders | None = None) -> None:
        """`orders`: cached variable orders of the database."""
        self.orders = orders or Orders()
        # By ids of rules and strata. The values hold these objects, so that no other gets the id.
        self._found: dict[
            tuple[int, bool, int | None, str], tuple[CheckedRule, list[PreparedPlan]]
        ] = {}
        self._parted: dict[tuple[int, str], tuple[Stratum, Held, SplitStratum | None]] = {}
        self._delta_plans: dict[tuple[int, frozenset[str]], tuple[dict[str, int], RulePlan]] = {}
        self._facts: Recent[tuple[Stratum, Held]] = Recent(MOST_FACTS)  # of strata
        # Rewritten rules and strata, by the rewriting and the ids of the original rules.
        self._rewritten: dict[Hashable, tuple[object, Any]] = {}

    def rewritten(
        self, what: Hashable, rules: Sequence[CheckedRule], make: Callable[[], Made]
    ) -> Made:
        """Caches the rewritten rules that `make` returns, so that they are planned once."""
        key = (what, *map(id, rules))
        if key not in self._rewritten:
            self._rewritten[key] = tuple(rules), _planned(rules, make)
        found: Made = self._rewritten[key][1]
        return found

    def parted(
        self, stratum: Stratum, way: str, relation: RelationOf, make: Splitting
    ) -> SplitStratum | None:
        """Returns a stratum's split rules; the same objects while they stay equal, so that they are
        planned once. `make` looks up relations."""
        known = self._parted.get((id(stratum), way))
        if known is not None and _same(known[1], relation):
            return known[2]
        made_of, made = _looking(relation, stratum.rules, make)
        before = None if known is None else known[2]
        if made == before:
            made = before
        for rule in () if before is None or made is before else before.stratum.rules:
            for key in [key for key in self._found if key[0] == id(rule)]:
                del self._found[key]
        self._parted[id(stratum), way] = stratum, made_of, made
        return made

    def plan(
        self,
        rule: CheckedRule,
        first: bool,
        relation: RelationOf,
        make: Callable[[RelationOf, list[Looked]], RulePlan],
        values: Mapping[str, Value],
        scans: int | None = None,
        device: str = "",
    ) -> RulePlan:
        """The plan of a rule in the first round or a later one; `make` looks up relations.

        `scans`: the plan scans relations of at least this many rows. `device`: it is for this one.
        Parameters with other values share a plan if their selectivity is similar.
        """
        _, plans = self._found.setdefault((id(rule), first, scans, device), (rule, []))
        plans[:] = [known for known in plans if _same(known[1], relation)]
        for plan, _, before in plans:
            if all(_alike(each, relation, values) for each in before):
                return plan
        looked: list[Looked] = []
        made_of, plan = _looking(relation, [rule], lambda look: make(look, looked))
        plans.append((plan, made_of, tuple(looked)))
        del plans[:-SIMILAR]
        return plan

    def delta_plan(
        self,
        rule: CheckedRule,
        read: frozenset[str],
        sizes: Statistics,
        make: Callable[[Statistics], RulePlan],
    ) -> RulePlan:
        """The plan of a rule for the new rows of the relations in `read`; it depends only on
        approximate numbers of rows."""
        counts, plan = self._delta_plans.get((id(rule), read), ({}, None))
        if plan is not None and all(
            rows / SHIFT <= sizes(name, "full").rows + 1 <= rows * SHIFT
            for name, rows in counts.items()
        ):
            return plan
        seen: dict[str, int] = {}

        def look(name: str, version: Version) -> RelationStatistics:
            size = sizes(name, version)
            if version == "full":
                seen[name] = size.rows + 1
            return size

        plan = _planned([rule], lambda: make(look))
        self._delta_plans[id(rule), read] = seen, plan
        return plan

    def holds(self, fact: Hashable, stratum: Stratum, relation: RelationOf) -> bool:
        """Whether `note` recorded a fact about a stratum over the same relations: that their keys
        need no dictionary, or that a recursion did not fit a device."""
        known = self._facts.get((fact, id(stratum)))
        return known is not None and _same(known[1], relation)

    def note(self, fact: Hashable, stratum: Stratum, relations: Mapping[str, Relation]) -> None:
        self._facts.put((fact, id(stratum)), (stratum, _held(relations)))


def _length(statements: Iterable[Statement]) -> int:
    return sum(each.span.end - each.span.start for each in statements)


def _held(relations: Mapping[str, Relation]) -> Held:
    stores = ((name, relation.store) for name, relation in relations.items())
    return tuple((name, ref(store), store.fingerprint) for name, store in stores)


def _alike(looked: Looked, relation: RelationOf, values: Mapping[str, Value]) -> bool:
    """Whether parameter values have a selectivity similar to those of the cached plan."""
    bounds = [(op, known_value(bound, values)) for op, bound in looked.bounds]
    statistics = relation(looked.relation).statistics
    now = statistics.within(looked.column, [(op, v) for op, v in bounds if v is not None])
    pairs = zip(looked.shares, now, strict=True)
    return all(share / LIKE <= other <= share * LIKE for share, other in pairs)


def _same(made_of: Held, relation: RelationOf) -> bool:
    """Whether the relations have the same stores, or the same rows. A text's own relations and
    magic sets live for one call, so each call computes them again."""
    for name, held, fingerprint in made_of:
        store = relation(name).store
        if held() is not store and (fingerprint is None or store.fingerprint != fingerprint):
            return False
    return True


def _planned(rules: Sequence[CheckedRule], make: Callable[[], Made]) -> Made:
    long = _takes_long(rules)
    with spending("planning"), nullcontext() if long else uncollected():
        return apart(make, long)


def _takes_long(rules: Sequence[CheckedRule]) -> bool:
    """Whether planning may take more than some 20 ms: it compares the orders of many variables, or
    plans many literals or alternatives. Several groups with `;` multiply their alternatives."""
    if sum(len(rule.types) for rule in rules) >= MANY_VARIABLES:
        return True
    if sum(rule.span.end - rule.span.start for rule in rules) >= LONG_TEXT:
        return True
    return sum(isinstance(part, Or) for rule in rules for part in walk(rule.body)) > 1


def _looking(
    relation: RelationOf, rules: Sequence[CheckedRule], make: Callable[[RelationOf], Made]
) -> tuple[Held, Made]:
    looked_at: dict[str, Relation] = {}

    def look(name: str) -> Relation:
        return looked_at.setdefault(name, relation(name))

    made = _planned(rules, lambda: make(look))
    return _held(looked_at), made


@dataclass(slots=True)
class CheckedText:
    """A checked program, and caches that belong to it. `validity`: that of the statements that the
    database keeps."""

    checked: Checked
    texts: Sequence[object] = ()  # the objects whose ids are in its cache key, to keep them alive
    validity: Validity = VALID
    plans: Plans = field(default_factory=Plans)
    rewritten: dict[Hashable, Any] = field(default_factory=dict)  # by `engine.magic_sets`
    # By stratum: the other relations that it reads.
    reads: dict[tuple[str, ...], list[str]] = field(default_factory=dict)
    _interned: SymbolTable | None = None

    def intern(self, symbols: SymbolTable) -> None:
        """Puts all symbols of the program into the symbol table."""
        if self._interned is symbols:
            return
        for rule in chain.from_iterable(stratum.rules for stratum in self.checked.strata):
            for part in rule.parts:
                if isinstance(part, Const) and part.type == "symbol":
                    symbols.intern(str(part.value))
        self._interned = symbols


@dataclass(slots=True)
class Prepared:
    """A database's caches of recent texts and lists, and of files. `files`: the newest version of
    each, by reading options; `pipes`: what can be read only once; `unions`: the relations of
    several files, so that views stay fresh."""

    texts: Recent[tuple[Program, tuple[Caution, ...]]] = field(default_factory=Recent)
    programs: Recent[CheckedText] = field(default_factory=lambda: Recent(length=CHECKED))
    validities: Recent[tuple[Validity, Sequence[object]]] = field(default_factory=Recent)
    lists: Recent[Relation] = field(default_factory=Recent)  # of values, by their content
    orders: Orders = field(default_factory=Orders)
    files: dict[tuple[object, ...], tuple[tuple[int, int], Relation]] = field(default_factory=dict)
    pipes: Pipes = field(default_factory=Pipes)
    unions: dict[str, tuple[tuple[parts.Version, ...], Relation]] = field(default_factory=dict)
    _over: tuple[object, object] = (None, None)
    _seen: Recent[Any] = field(default_factory=Recent)

    def anew(self) -> Prepared:
        """Empty caches of texts, programs and plans, with the same relations of lists and files."""
        return Prepared(lists=self.lists, files=self.files, pipes=self.pipes, unions=self.unions)

    def seen(self, texts: object, known: object) -> Recent[Any] | None:
        """The cache of texts over these rules and these schemas of stored relations, the same
        objects as in the last call. For other objects it starts empty."""
        if known is None:
            return None
        if self._over[0] is not texts or self._over[1] is not known:
            self._over, self._seen = (texts, known), Recent()
        return self._seen

    def parse(self, text: str, name: str, bare: bool) -> tuple[Program, tuple[Caution, ...]]:
        """Parses a text; returns its program and warnings."""
        if len(text) > LONGEST:
            return parse_with_cautions(text, name, bare=bare)
        found = self.texts.get((text, name, bare))
        if found is None:
            found = parse_with_cautions(text, name, bare=bare)
            self.texts.put((text, name, bare), found, len(text))
        return found

    def check(
        self,
        outlines: Sequence[Outline],
        own: Program,
        said: Sequence[Statement],
        known: Mapping[str, Schema],
        types: Mapping[str, ParamType],
        whole: bool,
        unread: Mapping[int, Error],
        notes: PassNotes | None = None,
    ) -> CheckedText:
        """Checks a text with the statements that the database keeps, those of `outlines`. The cache
        key has the ids of both.

        `said`: what the checks see of the text. `unread`: kept statements, by id, whose files
        cannot be read. `notes`: what the passes do to the program, if it is not cached.
        """
        errors = tuple((at, str(error)) for at, error in unread.items())
        data, params = tuple(known.items()), tuple(sorted(types.items()))
        over = tuple(map(id, outlines)), data, params, errors
        key = (over, id(own) if said else None, whole)
        found = self.programs.get(key)
        if found is None:
            before = self.validities.get(over)
            valid = None if before is None else before[0]
            length, checked, validity = _length(said), None, VALID
            with spending("planning"):
                if said and notes is None:
                    checking_over = partial(check_over, valid, said, known, types, whole)
                    checked = apart(checking_over, length >= LONG_TEXT)
                if checked is None:
                    kept = [statement for outline in outlines for statement in outline.statements]
                    length += _length(kept)
                    checking = partial(
                        check_with, kept, said, known, types, unread, valid, whole, notes
                    )
                    checked, validity, alone = apart(checking, length >= LONG_TEXT)
                    if alone is not None:
                        self.validities.put(over, (alone, tuple(outlines)))
            plans = Plans(self.orders)
            found = CheckedText(rewritten(checked, notes), (*outlines, own), validity, plans)
            self.programs.put(key, found, length)
        return found
