"""`PreparedQuery` and `Inserter`: calls that are prepared once and made many times."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from gdatalog.asking import ask
from gdatalog.decimals import scale_of
from gdatalog.engine.catalog.parameters import parameter
from gdatalog.engine.compiler.compiled import Compiled
from gdatalog.errors import Caution, TypeMismatchError, UsageError, check_rows, meant
from gdatalog.options import seconds_of, strategy_of
from gdatalog.parser.words import check_relation_name
from gdatalog.progress import OnProgress
from gdatalog.records import replace
from gdatalog.relations import Inserted
from gdatalog.result import Result
from gdatalog.storage.load_options import Findings, LoadOptions, checked
from gdatalog.terminal_text import brief
from gdatalog.values import ListOf, ParamType

if TYPE_CHECKING:
    from gdatalog.session import Session
    from gdatalog.workspace import Workspace

Reading = Callable[[OnProgress | None, float | None], AbstractContextManager["Session"]]
Call = Callable[[OnProgress | None, float | None], AbstractContextManager[None]]


class PreparedQuery:
    """A query that was parsed, checked and planned once. `Database.prepare` makes one.

    Call it with values for its parameters, by name or as a mapping; they may also be in the mapping
    that `prepare` got. The options are those of `Database.query`. Rows may come and go between
    calls; if types or rules that the query reads change, the next call prepares it again. Threads
    may share a prepared query.

    >>> import gdatalog as gd
    >>> db = gd.connect()
    >>> db["E"] = [(1, 2), (1, 3), (2, 3)]
    >>> q = db.prepare("?- E($x, y), y < $most.")
    >>> q(x=1, most=9).fetchall()
    [(2,), (3,)]
    >>> q({"x": 1, "most": 3}).fetchall()
    [(2,)]
    """

    def __init__(
        self,
        session: Session,
        call: Reading,
        text: str,
        given: Mapping[str, Any],
        strategy: str,
    ) -> None:
        """`session`: that of the present call. `call`: a context for others. `given`: values for
        each call that gives no others."""
        self._call = call
        self._program = session.parse(text, "<query>", bare=True)
        self._text = text
        self._given = dict(given)
        self._strategy = strategy_of(strategy)
        self._checked = self._check(session)

    @property
    def text(self) -> str:
        """The text of the query."""
        return self._text

    @property
    def params(self) -> Mapping[str, str]:
        """The types of the query's parameters, by name.

        >>> import gdatalog as gd
        >>> db = gd.connect()
        >>> db["E"] = [(1, 2.5)]
        >>> dict(db.prepare("?- E(x, y), x in $some, y < $most.").params)
        {'some': 'list of int', 'most': 'float'}
        """
        types = self._checked[1]
        return MappingProxyType({name: _words(kind) for name, kind in types.items()})

    @property
    def cautions(self) -> Sequence[Caution]:
        """Warnings about the text."""
        return self._checked[0].cautions

    def __repr__(self) -> str:
        return f"<gdatalog.PreparedQuery: {brief(self._text.strip())}>"

    def __call__(
        self,
        values: Mapping[str, Any] | None = None,
        /,
        *,
        limit: int | None = None,
        max_rows: int | None = None,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
        **named: Any,
    ) -> Result:
        """Answer the query with these values. Parameters named as one of the options are given by
        the mapping."""
        check_rows("a limit", limit)
        check_rows("max_rows", max_rows)
        seconds_of(timeout)
        with self._call(on_progress, timeout) as session:
            session.check_open()
            checked = self._checked
            if not checked[0].is_over(session.catalog):
                checked = self._checked = self._check(session)
            given = {**self._given, **(values or {}), **named}
            params = self._typed(given, checked[1], session)
            return ask(session, self._program, params, self._strategy, limit, max_rows, False)

    def _check(self, session: Session) -> tuple[Compiled, Mapping[str, ParamType]]:
        """Checks the query over what the session reads, and infers its parameters' types."""
        compiled, types = session.signature(self._program, self._given)
        compiled.asked  # noqa: B018  # an error unless the text asks for one relation
        return compiled, types

    def _typed(
        self, given: Mapping[str, Any], types: Mapping[str, ParamType], session: Session
    ) -> dict[str, Any]:
        """The values as the types of the parameters demand."""
        found = {}
        for name, value in given.items():
            if name not in types:
                near = meant(name, types)
                others = "parameters are " + ", ".join(f"${known}" for known in types)
                hint = others if types else "the text has no parameters"
                raise UsageError(
                    f"the query has no parameter `${name}`",
                    hint=hint if near is None else f"did you mean `${near}`?",
                )
            found[name] = _fitting(name, value, types[name])
        missing = [name for name in types if name not in found]
        kept = session.catalog.params
        if missing and not kept.keys() >= {*missing}:
            name = next(n for n in missing if n not in kept)
            raise UsageError(f"the parameter `${name}` has no value", hint=f"give it: {name}=...")
        return found


class Inserter:
    """Inserts rows into one relation. `Database.inserter` makes one; threads may share it.

    >>> import gdatalog as gd
    >>> db = gd.connect()
    >>> insert = db.inserter("E")
    >>> insert([(1, 2)]), insert([(1, 2), (2, 3)]).rows
    (E: 1 row inserted, 1)
    """

    def __init__(self, workspace: Workspace, call: Call, name: str, options: LoadOptions) -> None:
        """`call`: a context that locks the workspace."""
        check_relation_name(name)
        self._workspace = workspace
        self._call = call
        self._name = name
        self._options = checked(options)

    def __repr__(self) -> str:
        return f"<gdatalog.Inserter into {brief(self._name)}>"

    def __call__(self, rows: Any, *, on_progress: OnProgress | None = None) -> Inserted:
        """Insert rows, as `Database.insert` does."""
        with self._call(on_progress, None):
            workspace, name, findings = self._workspace, self._name, Findings()
            workspace.check_open()
            given = rows.shared(workspace.symbols) if isinstance(rows, Result) else rows
            options = replace(self._options, findings=findings)
            new, known = workspace.add(name, given, options)
            workspace.tell_of(name, findings)
            return Inserted(name, new, known, workspace.catalog.rules_of(name))


def _fitting(name: str, value: Any, wanted: ParamType) -> Any:
    """A value for a parameter of this type: an int fits a float, and a date a timestamp."""
    kind, read = parameter(name, value)
    if isinstance(kind, ListOf) and isinstance(wanted, ListOf):
        if kind.empty or kind.type == wanted.type or (kind.type, wanted.type) in _FITS:
            return read
    elif (kind, wanted) == ("int", "float"):
        assert isinstance(read, int)
        return float(read)
    elif kind == wanted or (kind, wanted) in _FITS or _digits_fit(kind, wanted):
        return value
    raise TypeMismatchError(f"the parameter `${name}` is {_words(wanted)}, not {_words(kind)}")


def _digits_fit(kind: ParamType, wanted: ParamType) -> bool:
    """Whether a decimal or an int has no more digits after the point than decimals of a type."""
    if not isinstance(kind, str) or not isinstance(wanted, str):
        return False
    return (kind == "int" or scale_of(kind) > 0) and scale_of(kind) < scale_of(wanted)


_FITS = (("int", "float"), ("date", "timestamp"))


def _words(kind: ParamType) -> str:
    if isinstance(kind, ListOf):
        return f"list of {kind.type}"
    return str(kind)
