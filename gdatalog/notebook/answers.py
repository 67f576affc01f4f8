"""A cell's text: the name of its source, its kept rules, and the answers that it asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gdatalog.database import Database
from gdatalog.engine.facts.files import Folders, to_stdout, write_relation
from gdatalog.engine.metrics import Metrics
from gdatalog.engine.session.knobs import Strategy
from gdatalog.engine.session.text_session import Ask, Session
from gdatalog.errors import UsageError
from gdatalog.parser import Program
from gdatalog.parser.syntax import Query, Rule
from gdatalog.records import dataclass
from gdatalog.report import Explanation, Profile
from gdatalog.result import Result
from gdatalog.shell.messages import tuples


@dataclass(frozen=True, slots=True)
class CellText:
    """A text, what errors call it, and what its rules are kept under."""

    text: str
    source: str
    key: str


@dataclass(frozen=True, slots=True)
class How:
    """How a text is answered.

    `named`: it has to have one answer, for a variable. `quiet`: rules are kept, and no answer
    is made that nobody gets to see.
    """

    params: Mapping[str, Any]
    strategy: str = "auto"
    limit: int | None = None
    profile: bool = False
    named: bool = False
    quiet: bool = False


@dataclass(frozen=True, slots=True)
class Answers:
    """`results`: what is to be shown, in the text's order. `lines`: a line for each file that was
    written, and each size."""

    results: Sequence[Result]
    lines: Sequence[str]
    profile: Profile | None = None


def run(db: Database, text: CellText, how: How) -> Answers:
    """Keeps a text's rules and answers it. If anything goes wrong, nothing of it is kept."""
    if how.limit is not None and how.limit < 0:
        raise UsageError(f"a limit cannot be negative: {how.limit}")
    workspace = db.workspace
    with db.call():
        program = workspace.parse(text.text, text.source, bare=True)
        if how.named:
            _refuse_many(program)
        metrics = Metrics() if how.profile else None
        with workspace.rollback():
            session = workspace.keep(
                program,
                text.key,
                how.params,
                Folders(),
                reports=metrics,
                strategy=how.strategy,
            )
            answers = _answer(db, session, how, metrics)
        workspace.tell(session)
        return answers


def explained(
    db: Database, text: CellText, params: Mapping[str, Any], strategy: Strategy = "auto"
) -> Explanation:
    """The plan of a text, as it would be in place of what is kept under its key; that stays."""
    with db.call(), db.workspace.without_texts([text.key]):
        return db.explain(text.text, params, strategy=strategy)


def forget(db: Database, keys: Sequence[str]) -> None:
    """The texts under these keys are kept no more."""
    with db.call():
        db.workspace.forget_texts(keys)


def _answer(db: Database, session: Session, how: How, metrics: Metrics | None) -> Answers:
    results: list[Result] = []
    lines: list[str] = []
    for ask in _asks(session, how):
        directive = ask.directive
        wanted = max(1, how.limit) if directive is None and how.limit is not None else None
        result = Result(session.relation(ask.name, wanted), db.workspace.symbols)
        if directive is None or to_stdout(directive):
            cut = how.limit is not None and result.columns
            results.append(result.head(how.limit or 0) if cut else result)
        elif directive.kind == "printsize":
            lines.append(f"{ask.name}: {tuples(len(result))}")
        else:
            policy, folders = db.workspace.policy, session.settings.folders
            written = write_relation(directive, ask.name, result, policy, folders)
            lines.append(f"{ask.name}: {tuples(len(result))} -> {written}")
    if metrics is None:
        return Answers(results, lines)
    shown = results[-1] if results else None
    return Answers(results, lines, Profile.after(session.context, shown))


def _asks(session: Session, how: How) -> list[Ask]:
    """What is answered: what the text asks for, or else the relation of its last rule."""
    asks = session.asks()
    if how.quiet and not how.named:
        return [ask for ask in asks if ask.directive is not None and not to_stdout(ask.directive)]
    if asks and not (how.named and all(ask.directive is not None for ask in asks)):
        # The last answer gets the name: it is the query's, wherever that stands among the outputs.
        return sorted(asks, key=lambda ask: ask.directive is None) if how.named else asks
    rules = [rule for rule in session.parts.rules if isinstance(rule, Rule)]
    if rules:
        return [*asks, Ask(rules[-1].heads[0].name, None)]
    if how.named:
        raise UsageError(
            "this text asks for nothing, so there is nothing to give a name",
            hint="end it with `?- body.`, or with the rule whose relation you want",
        )
    return asks


def _refuse_many(program: Program) -> None:
    queries = [s for s in program.statements if isinstance(s, Query)]
    if len(queries) > 1:
        raise UsageError(
            f"a name is for one answer, and this cell asks {len(queries)} times",
            queries[1].span,
            hint="keep its rules in this cell, and ask in others",
        )


# Which cell runs: what its text is called in errors, and under what its rules are kept.


class NotebookCells:
    """The cell that runs, and the texts that each cell gave when it last ran.

    Front-ends give each cell an id that stays when its text is changed. By it a cell that is run
    again replaces the rules that it gave before. Where there is none (IPython on a terminal, old
    front-ends), it is the name of the result, or else the very text, that tells.
    """

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.id: str | None = None
        self._given: dict[str, list[str]] = {}  # the keys of a cell's texts, by its id
        self._now: list[str] = []

    def begin(self, info: Any) -> None:
        """A cell begins to run."""
        self.id = getattr(info, "cell_id", None)
        self._now = []

    def end(self, result: Any) -> list[str]:
        """A cell has run; gives the keys of the texts that it gave before and does not any more."""
        if self.id is None:
            return []
        before = self._given.pop(self.id, [])
        gone = [key for key in before if key not in self._now]
        if not getattr(result, "success", True):
            self._given[self.id] = [*gone, *self._now]  # nothing is given up by a cell that fails
            return []
        if self._now:
            self._given[self.id] = self._now
        return gone

    def key(self, text: str, name: str | None) -> str:
        """What a text's rules are kept under: they replace those that were kept under it."""
        if self.id is None:
            return text if name is None else f"<cell of {name}>"
        key = f"<cell {self.id}, text {len(self._now) + 1}>"
        self._now.append(key)
        return key

    @property
    def source(self) -> str:
        """What errors call the text, as IPython calls the cell."""
        return f"In[{self.shell.displayhook.prompt_count}]"
