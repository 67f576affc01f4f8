"""Facts in columns, as statements."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from gdatalog.errors import SourceText
from gdatalog.parser import syntax as s
from gdatalog.parser.facts import FACT, FactReader, Shape, fact_rule


def one_by_one(statements: Iterable[s.Statement]) -> Iterator[s.Statement]:
    """The same statements, where each fact is one."""
    for statement in statements:
        if isinstance(statement, s.Facts):
            yield from _rules(statement)
        else:
            yield statement


def examples(facts: s.Facts, shapes: Collection[tuple[str, Shape]]) -> Iterator[s.Rule]:
    """The first fact of each of these relations and types, in the order of the text."""
    left = set(shapes)
    for rule in _rules(facts) if left else ():
        head = rule.heads[0]
        types = (arg.type for arg in head.args if isinstance(arg, s.Const))
        shape = head.name, tuple(types)
        if shape in left:
            yield rule
            left.remove(shape)
            if not left:
                return


def last_name(facts: s.Facts) -> str:
    """The relation of the last fact."""
    names = {columns.name for columns in facts.relations}
    return next(found[1] for found in reversed([*_found(facts)]) if found[1] in names)


def number_of(statements: Iterable[s.Statement]) -> int:
    """The number of statements, where each fact is one."""
    return sum(
        sum(map(len, each.relations)) if isinstance(each, s.Facts) else 1 for each in statements
    )


def rest_of(facts: s.Facts, name: str, gone: Iterator[bool]) -> list[s.Statement]:
    """Facts without some of a relation: `gone` says of each of them whether it goes. They are read
    again, from a text with blanks in place of those that go."""
    names = {columns.name for columns in facts.relations}
    source, at, parts = facts.span.source, 0, []
    for found in _found(facts):
        if found[1] not in names or (found[1] == name and next(gone)):
            blank = re.sub(r"[^\n]", " ", found[0])
            parts += [source.text[at : found.start()], blank]
            at = found.end()
    text = "".join([*parts, source.text[at : facts.span.end + 1]])
    left: list[s.Statement] = []
    FactReader(SourceText(source.name, text)).read(facts.span.start, left)
    return left


def _rules(facts: s.Facts) -> Iterator[s.Rule]:
    names = {columns.name for columns in facts.relations}
    for found in _found(facts):
        if found[1] in names:
            rule = fact_rule(facts.span.source, found)
            assert rule is not None
            yield rule


def _found(facts: s.Facts) -> Iterator[re.Match[str]]:
    """The facts of the text, also those of relations that were dropped since."""
    span = facts.span
    return re.compile(FACT).finditer(span.source.text, span.start, span.end + 1)
