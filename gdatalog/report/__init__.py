"""`Explanation` shows how a program will be evaluated, `Profile` how it was evaluated.

Both are trees, which can be viewed in several ways.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from gdatalog.account import default_limit
from gdatalog.engine.context import StratumInputs
from gdatalog.engine.fixpoint.ready import Ready
from gdatalog.engine.metrics import Metrics
from gdatalog.engine.pages import PlannedPlacement, plan_placement
from gdatalog.engine.session import FORMS
from gdatalog.engine.session.evaluation import Evaluation
from gdatalog.engine.session.magic_sets import part_of, rewritten_for
from gdatalog.engine.session.text_session import Session
from gdatalog.errors import UsageError
from gdatalog.parser import format_node
from gdatalog.plan import RulePlan
from gdatalog.plan.placement import Spread
from gdatalog.plan.stratum import OnTheHost
from gdatalog.planner.check import CheckedRule, Stratum
from gdatalog.report.folded import folded, is_large, named_part
from gdatalog.report.plan_tree import (
    WORTH_A_WORD,
    NamedIndex,
    PlannedRule,
    PlannedStratum,
    PlanReport,
    indexes_of,
)
from gdatalog.report.profile_tree import Evaluated
from gdatalog.report.rules import COLUMNS, round_lines
from gdatalog.report.tree import ReportNode
from gdatalog.storage.relation import Relation

if TYPE_CHECKING:
    import pandas as pd

    from gdatalog.engine.context import ExecutionContext
    from gdatalog.result import Result

_ENDINGS = {".html": "html", ".json": "json", ".mmd": "mermaid", ".txt": "text"}


class Shown:
    """A tree that prints, draws and saves itself."""

    title = "gdatalog"
    folds = True  # if there are many rules

    def _tree(self) -> ReportNode:
        raise NotImplementedError

    @cached_property
    def tree(self) -> ReportNode:
        """The tree: nodes of plain data."""
        return self._tree()

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        return self.to_text()

    def of(self, which: str | int) -> Self:
        """Returns the rules of one relation in full, by its name; those of a stratum by its number
        (3), one rule by its number ("3.2"), or all rules ("*").

        Printing and drawing fold plans with many rules.

        >>> import gdatalog as gd
        >>> db = gd.connect(device="cpu")
        >>> db["E"] = [(1, 2), (2, 3)]
        >>> print(db.explain("p(x) <- E(x, _). q(y) <- p(y), E(_, y).").of("p"))
        on cpu, strategy auto, a thread for each core  expected
        stratum 1: p
        └ p(x) <- E(x, _).
          │ breadth-first: about 2 rows to look at
          ├ x in E([x])                                      ~2
          └ give p(x)
        """
        part = copy(self)
        part.__dict__["tree"] = named_part(self.tree, str(which))
        part.folds = False
        return part

    @property
    def _folded(self) -> bool:
        return self.folds and is_large(self.tree)

    def to_text(self, width: int = 100) -> str:
        """The tree as lines for a terminal of this width; plans with many rules are folded."""
        from gdatalog.report.tree import text

        return text(folded(self.tree) if self._folded else self.tree, width)

    def to_dict(self) -> dict[str, Any]:
        """The tree as dicts, lists, strings and numbers."""
        return self.tree.to_dict()

    def to_json(self) -> str:
        """The same as JSON."""
        import json

        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False)

    def to_mermaid(self) -> str:
        """The tree as a mermaid flowchart."""
        from gdatalog.report.html import mermaid

        return mermaid(self.tree)

    def to_html(self) -> str:
        """A complete page, which needs no network and no other file."""
        from gdatalog.report.html import page

        return page(self.tree, self.title, self._folded)

    def _repr_html_(self) -> str:
        from gdatalog.report.html import fragment

        return fragment(self.tree, self._folded)

    def render(self, form: str) -> str:
        """The tree as "text", "json", "mermaid" or "html"."""
        made = {
            "text": self.to_text,
            "json": self.to_json,
            "mermaid": self.to_mermaid,
            "html": self.to_html,
        }.get(form)
        if made is None:
            forms = ", ".join(f'"{name}"' for name in FORMS)
            raise UsageError(f"a plan has no form {form!r}", hint=f"one of {forms}")
        return made()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the tree to a file, as its suffix says: .html, .json, .mmd (mermaid) or .txt."""
        form = _ENDINGS.get(Path(path).suffix.lower())
        if form is None:
            endings = ", ".join(_ENDINGS)
            raise UsageError(
                f"the ending of {os.fspath(path)} does not say as what a plan is to be saved",
                hint=f"one of {endings}",
            )
        from gdatalog.storage.writers import write_text

        write_text(self.render(form) + "\n", path)


# `Explanation`: how a program will be evaluated.


class Explanation(Shown):
    """How a program will be evaluated: its strata, and a plan for each rule.

    Each variable shows how many bindings are expected once it is bound. `tree` has everything as
    plain data; `to_html()`, `to_mermaid()`, `to_json()` and `save(path)` draw it.

    >>> import gdatalog as gd
    >>> db = gd.connect(device="cpu")
    >>> db["E"] = [(1, 2), (2, 3), (3, 1)]
    >>> print(db.explain("p(x, z) <- E(x, y), E(y, z)."))
    on cpu, strategy auto, a thread for each core  expected
    stratum 1: p
    └ p(x, z) <- E(x, y), E(y, z).
      │ breadth-first: about 9 rows to look at
      ├ y in E[1,0]([y], x) and E([y], z)                ~3
      │ └ x in E[1,0](y, [x])                            ~3
      │   └ z in E(y, [z])                               ~3
      └ give p(x, z)
    indexes: 1 to build, 72 B
    └ E by column1, column0: 3 entries, 72 B
    """

    title = "gdatalog: a plan"

    def __init__(self, planned: PlanReport) -> None:
        self.planned = planned

    @property
    def strata(self) -> tuple[PlannedStratum, ...]:
        """The strata in evaluation order, with the plans of their rules."""
        return self.planned.strata

    def _tree(self) -> ReportNode:
        return self.planned.tree()


def _at_hand(evaluation: Evaluation, name: str) -> Relation | None:
    """A relation that is stored already. Split rules' parts are in no schema."""
    return evaluation.known(name) if name in evaluation.checked.schemas else None


def _spread(
    stratum: Stratum, plan: RulePlan, inputs: StratumInputs, known: Callable[[str], Relation | None]
) -> Spread | None:
    """The workers of a cluster that run a rule. A fixpoint is spread as a whole."""
    context = inputs.context
    if context.cluster is None or stratum.recursive or not plan.joins:
        return None
    return context.cluster.plan_placement(plan, inputs, known)


def _rule(
    ready: Ready,
    rule: CheckedRule,
    plan: RulePlan,
    inputs: StratumInputs,
    known: Callable[[str], Relation | None],
) -> PlannedRule:
    """A rule with its plan and the device that runs it."""
    stratum = ready.stratum
    left, beyond = inputs.context.device.refuses(plan), PlannedPlacement()
    on_host = next((one for one in ready.plan.rewrites if isinstance(one, OnTheHost)), None)
    if on_host is not None:
        left = on_host.reason
    elif left is None and not stratum.recursive and plan.joins:
        whole = plan.otherwise or plan
        beyond = PlannedPlacement() if whole.terms else plan_placement(whole, known, inputs.context)
        left = beyond.left
    spread = _spread(stratum, plan, inputs, known)
    return PlannedRule(rule, plan, left, spread, beyond.cells, beyond.pages)


def explain(session: Session, names: Sequence[str], why: str = "asked for") -> Explanation:
    """Plans the evaluation of these relations; `why` says why this device was chosen."""
    whole = session.whole_asks()
    context = session.context
    device = context.device
    parts: list[tuple[Evaluation, list[str]]] = [(session.evaluation, [])]
    notes: dict[str, None] = {}
    for name in names:
        part = part_of(session.evaluation, name, whole)
        rewritten = rewritten_for(session.evaluation, name, whole)
        if rewritten is not None:
            covered = (rewritten.covered,) if rewritten.covered else ()
            notes.update(dict.fromkeys((*rewritten.program.notes, *covered)))
        if part is None:
            parts[0][1].append(name)
        else:
            parts.append((part, [name]))
    strata = []
    indexes: dict[str, NamedIndex] = {}
    for evaluation, wanted in parts:
        inputs = evaluation.inputs()
        for stratum in evaluation.strata_of(wanted):
            ready = evaluation.planned(stratum)
            known = partial(_at_hand, evaluation)
            rules = tuple(_rule(ready, rule, plan, inputs, known) for rule, plan in ready.planned)
            strata.append(PlannedStratum(stratum, ready.plan, rules))
            own = [plan for _, plan in ready.planned]
            read = indexes_of(own, known, device)
            indexes.update({index.label: index for index in read})
    asked = [
        format_node(fact)
        for part, _ in parts[1:]
        for name, facts in part.checked.facts.items()
        if name.endswith("?")
        for fact in facts
    ]
    memory = context.memory
    needed = sum(index.asked.bytes or 0 for index in indexes.values() if not index.asked.there)
    said = memory != default_limit() or needed > WORTH_A_WORD * memory
    return Explanation(
        PlanReport(
            tuple(strata),
            device.name,
            why,
            context.knobs,
            context.tuning,
            tuple(asked),
            tuple(notes),
            tuple(indexes.values()),
            memory if said else None,
            device.members,
        )
    )


# `Profile`: how a program was evaluated.


class Profile(Shown):
    """How a program was evaluated: the tree of `explain`, with actual rows and time.

    Expected bindings stand beside actual ones; a mark shows estimates that were wrong by a factor
    of ten or more. `result` is the answer, `rounds` a pandas DataFrame with each rule's metrics in
    each round of each fixpoint.

    >>> import gdatalog as gd
    >>> db = gd.connect()
    >>> db["E"] = [(1, 2), (2, 3), (3, 1)]
    >>> text = "path(x, y) <- E(x, y). path(x, z) <- path(x, y), E(y, z)."
    >>> db.profile(text, strategy="levelwise").rounds[["rule", "round", "tried", "new"]]
                                     rule  round  tried  new
    0              path(x, y) <- E(x, y).      0      3    3
    1  path(x, z) <- path(x, y), E(y, z).      1      3    3
    2  path(x, z) <- path(x, y), E(y, z).      2      3    3
    3  path(x, z) <- path(x, y), E(y, z).      3      3    0
    """

    title = "gdatalog: a profile"

    @classmethod
    def after(cls, context: ExecutionContext, result: Result | None) -> Profile:
        """The profile of what an evaluation has done so far."""
        metrics, limits = context.metrics, context.limits
        return cls(
            metrics, metrics.seconds, limits.account.peak, result, context.device.name,
            limits.account.held, limits.spilled,
        )  # fmt: skip

    def __init__(
        self,
        metrics: Metrics,
        seconds: float,
        peak: int,
        result: Result | None,
        device: str = "cpu",
        held: Mapping[str, int] | None = None,
        spilled: int = 0,
    ) -> None:
        """`held`: final memory by owner; `spilled`: bytes written to temporary files."""
        self.runs = metrics.runs
        self.strata = metrics.strata
        self.device = device
        self.seconds = seconds
        self.peak = peak
        self.result = result
        self._evaluated = Evaluated(metrics, seconds, peak, device, dict(held or {}), spilled)

    def _tree(self) -> ReportNode:
        return self._evaluated.tree()

    @property
    def rounds(self) -> pd.DataFrame:
        """A pandas DataFrame with each rule's metrics in each round of each stratum.

        Columns: `stratum`, `relation` and `rule`; `round`, 0 for the rules before recursion;
        `tried`, the rows that the rule's joins produced, `new`, those that were not known before,
        and `duplicates`, the others; `seconds`; `bytes`, the peak memory; and `executor`. A
        fixpoint without rounds, because it runs for each value or group separately, is one line:
        its `round` is missing and its `rule` names the strategy.
        """
        import pandas as pd

        lines = [line for stratum in self.strata for line in round_lines(stratum)]
        frame = pd.DataFrame(lines, columns=list(COLUMNS))
        return frame.astype(dict.fromkeys(("round", "tried", "new", "duplicates"), "Int64"))

    def to_dict(self) -> dict[str, Any]:
        """The tree as plain data, with the rows of `rounds`."""
        lines = (line for stratum in self.strata for line in round_lines(stratum))
        rounds = [dict(zip(COLUMNS, line, strict=True)) for line in lines]
        return {**super().to_dict(), "rounds": rounds}
