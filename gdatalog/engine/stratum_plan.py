"""The plan of a stratum: a tree of operators, and the device that it is planned for."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gdatalog.engine.context import Operator
from gdatalog.engine.operators.placed import Placed
from gdatalog.plan.join_plan import RulePlan
from gdatalog.plan.placement import Shared, WorkerPlacement
from gdatalog.planner.check import CheckedRule, Stratum
from gdatalog.records import dataclass


@dataclass(frozen=True, slots=True)
class StratumPlan:
    stratum: Stratum
    root: Operator
    device: str = "cpu"

    @property
    def relations(self) -> tuple[str, ...]:
        return self.stratum.relations

    @property
    def recursive(self) -> bool:
        return self.stratum.recursive

    @property
    def leaves(self) -> tuple[Operator, ...]:
        """The operators that evaluate rules, in the order in which they may run."""
        return tuple(path[-1] for path in _paths(self.root))

    @property
    def main(self) -> Operator:
        """The operator for large data."""
        return self._main[-1]

    @property
    def _main(self) -> tuple[Operator, ...]:
        paths = [*_paths(self.root)]
        return next((path for path in paths if by_parts(path[-1])), paths[0])

    @property
    def rules(self) -> list[tuple[CheckedRule, RulePlan]]:
        """Each rule with its plans: those of the main operator, and what runs before it."""
        return [each for operator in self._main for each in operator.rules]

    @property
    def rewritings(self) -> tuple[Callable[..., object], ...]:
        """The passes that made the rules of the main operator out of the stratum's."""
        found = (getattr(operator, "rewriting", None) for operator in self._main)
        return tuple(filter(None, found))

    @property
    def workers(self) -> WorkerPlacement | None:
        """How a cluster runs it."""
        found = (getattr(operator, "placement", None) for operator in self._main)
        return next(filter(None, found), None)

    @property
    def on_host(self) -> str:
        """Why the CPU runs it although the device is another one; empty if it does not."""
        found = (getattr(operator, "reason", "") for operator in self._main)
        return next(filter(None, found), "")

    @property
    def placed(self) -> Placed | None:
        """The choice between the CPU and a GPU, if there was one."""
        return self.root if isinstance(self.root, Placed) else None

    @property
    def shared(self) -> Shared | None:
        """The devices that share a partitioned fixpoint."""
        found = (getattr(each, "shared", None) for each in self.leaves)
        return next(filter(None, found), None)

    @property
    def placement(self) -> str:
        """This machine's device, several devices, or a cluster's workers."""
        return str(self.workers or self.shared or f"on {self.device}")

    def lines(self, whole: bool = False) -> tuple[str, ...]:
        """A line for each operator; `whole`: including what runs if compiled loops do not suit."""
        return (*self.root.lines(whole), *getattr(self.main, "projections", ()))


def by_parts(operator: Operator) -> str:
    """How compiled fixpoints process new rows; empty for other operators."""
    return getattr(operator, "by_parts", "")


def _paths(operator: Operator) -> Iterator[tuple[Operator, ...]]:
    """The ways from an operator to each leaf."""
    if not operator.parts:
        yield (operator,)
    for part in operator.parts:
        yield from ((operator, *path) for path in _paths(part))
