"""The order of a query's answer: its columns by their places, and its limit and offset."""

from __future__ import annotations

from collections.abc import Sequence

from gdatalog.errors import Error, NameResolutionError, UsageError
from gdatalog.parser import syntax as s
from gdatalog.parser.words import column_name
from gdatalog.planner.check.checked import AnswerCut
from gdatalog.planner.check.wording import did_you_mean, either, text_of


def cut_of(query: s.Query, columns: Sequence[str], errors: list[Error]) -> AnswerCut | None:
    """What a query says about the rows of its answer, which has these columns; None if nothing."""
    ordering = query.ordering
    if ordering is None:
        return None
    if not columns:
        message = "an answer that is yes or no has no order, and no limit"
        errors.append(UsageError(message, ordering.span, hint="leave it out"))
        return None
    places: dict[int, bool] = {}
    for word, key in ordering.rest:
        place = _place(key, columns, errors)
        if place is not None:
            places.setdefault(place, word == "desc")
    return AnswerCut(tuple(places.items()), ordering.limit, ordering.offset)


def _place(key: s.Expr, columns: Sequence[str], errors: list[Error]) -> int | None:
    if isinstance(key, s.Var):
        name = key.name
    elif isinstance(key, s.Const) and isinstance(key.value, str):
        name = key.value
    else:
        hint = f"make it one: `?- ..., k = {text_of(key)} order by k`"
        message = "answers are ordered by their columns, and this is not one"
        errors.append(NameResolutionError(message, key.span, hint=hint))
        return None
    if name in columns:
        return columns.index(name)
    names = either([f"`{column_name(column)}`" for column in columns], "and")
    hint = did_you_mean(name, columns) or f"its columns are {names}"
    message = f"the answer has no column `{name}`"
    errors.append(NameResolutionError(message, key.span, hint=hint))
    return None
