"""Texts that differ only in constants share one program, in which these are parameters.

Constants that are whole arguments of atoms or sides of comparisons, in bodies, become parameters:
types, and what rewriting does, do not depend on their values, but on which of them are equal. Other
constants stay: a divisor, a pattern, a list, a fact. The texts of one `TextShape` differ only in
what became parameters. Errors point into the text that was given.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from gdatalog.errors import Caution, Error, Note, SourceText, Span
from gdatalog.parser import Program
from gdatalog.parser import syntax as s
from gdatalog.planner.check.names import CALLABLE
from gdatalog.planner.check.statements import reads_of as relations_read
from gdatalog.planner.check.walk import LEAVES, rebuild, walk
from gdatalog.records import cached_property, dataclass, replace
from gdatalog.values import INT_MAX, Value

MOST_CONSTANTS = 64  # constants of a text; a text with more holds data
LONGEST_TEXT = 4_000  # characters of a text

# Constants without escapes, exponents and the like; what only looks like one is passed over.
_WORD = re.compile(
    r"""
    //[^\n]* | /\*[\s\S]*?\*/ | ^[#%][^\n]*
  | (?: [^\W\d] | \? ) [\w?]* (?: \. [\w?]+ )* '* | [$@] [^\s(),]*
  | (?P<symbol> "[^"\\\n]*+" ) | "[^\n]*
  | (?P<float> [0-9]++ \. [0-9]++ (?! \w | \.\w ) )
  | (?P<int> [0-9]++ (?! \w | \.\w ) )
  | \.? [0-9] [\w.]*
    """,
    re.VERBOSE | re.MULTILINE,
)
_CALLABLE = frozenset(CALLABLE)
_HIDDEN = re.compile(r"\$#(-?)(\d+)")


@dataclass(frozen=True, slots=True)
class ConstantWord:
    """A constant of a text. `first`: the number of the first equal one."""

    kind: str
    text: str
    start: int
    first: int

    def value(self, sign: str) -> Value:
        if self.kind == "symbol":
            return self.text[1:-1]
        return int(sign + self.text) if self.kind == "int" else float(sign + self.text)


@dataclass(frozen=True, slots=True)
class TextForm:
    """A text without its constants, and the constants in order."""

    rest: tuple[str, ...]
    words: tuple[ConstantWord, ...]

    @staticmethod
    def of(text: str) -> TextForm | None:
        """None if the text has no constants that can be parameters, or too many."""
        if len(text) > LONGEST_TEXT:
            return None
        words: list[ConstantWord] = []
        rest: list[str] = []
        known: dict[tuple[str, str], int] = {}
        at = 0
        for found in _WORD.finditer(text):
            kind = found.lastgroup
            if kind is None:
                continue
            word, number = found.group(), len(words)
            if number == MOST_CONSTANTS or (kind == "int" and int(word) > INT_MAX):
                return None
            first = known.setdefault((kind, word), number)
            words.append(ConstantWord(kind, word, found.start(), first))
            rest += text[at : found.start()], f"{kind} {first}"
            at = found.end()
        return TextForm((*rest, text[at:]), tuple(words)) if words else None


class TextShape:
    """The texts that are alike but for their constants; made of the first of them."""

    def __init__(self, form: TextForm, text: str, program: Program) -> None:
        self.form = form
        self.text = text
        self.program = program
        # The signs and numbers of the constants that are parameters, by the parameter's name.
        self.places: dict[str, tuple[str, int]] = {}
        # Whether the program with parameters is valid, and gives the same columns, over a catalog.
        self.fits: tuple[object, bool] = None, False

    @cached_property
    def shared(self) -> Program | None:
        """The program with parameters."""
        statements = self.program.statements
        if _has_best_values(statements):
            return None
        places = {word.start: word for word in self.form.words}
        kept = {id(word) for word in self.form.words}

        def parameter(const: s.Const) -> s.Expr:
            text = const.span.text
            sign = "-" if text.startswith("-") else ""
            word = places.get(const.span.end - len(text.lstrip("- \t")))
            if word is None or sign + word.text != text or const.type != word.kind:
                return const
            name = f"#{sign}{word.first}"
            self.places[name] = sign, word.first
            kept.discard(id(word))
            return s.Param(name, const.span)

        lifted = tuple([_lifted(statement, parameter) for statement in statements])
        # An equal constant that stays would have to stay equal.
        stay = {word.first for word in self.form.words if id(word) in kept}
        if not self.places or any(number in stay for _, number in self.places.values()):
            return None
        return Program(lifted)


@dataclass(frozen=True, slots=True)
class SharedText:
    """A text that is answered by the program of its shape."""

    shape: TextShape
    source: SourceText
    program: Program
    params: Mapping[str, Value]
    words: Sequence[ConstantWord]

    @staticmethod
    def of(shape: TextShape, form: TextForm, source: SourceText) -> SharedText | None:
        """None if constants differ that are no parameters."""
        if shape.shared is None:
            return None
        numbers = {number for _, number in shape.places.values()}
        pairs = zip(shape.form.words, form.words, strict=True)
        if any(own.text != word.text for own, word in pairs if own.first not in numbers):
            return None
        words = form.words
        params = {name: words[at].value(sign) for name, (sign, at) in shape.places.items()}
        return SharedText(shape, source, shape.shared, params, words)

    @contextmanager
    def speaking(self) -> Iterator[None]:
        """Within this context, errors speak of the text that was given."""
        try:
            yield
        except Error as error:
            for each in error.all:
                each.message = self._plain(each.message)
                each.args = (each.message,)
                each.hint = None if each.hint is None else self._plain(each.hint)
                each.span = self.moved(each.span)
                notes = ((self._plain(note.message), self.moved(note.span)) for note in each.notes)
                each.notes = tuple([Note(*note) for note in notes])
            raise

    def caution(self, caution: Caution) -> Caution:
        """A caution about the text that was given."""
        hint = None if caution.hint is None else self._plain(caution.hint)
        message, span = self._plain(caution.message), self.moved(caution.span)
        return replace(caution, message=message, hint=hint, span=span)

    def _plain(self, text: str) -> str:
        return _HIDDEN.sub(lambda found: found[1] + self.words[int(found[2])].text, text)

    def moved(self, span: Span | None) -> Span | None:
        """The same place in the text that was given."""
        if span is None or span.source.text != self.shape.text:
            return span
        before = self.shape.form.words
        start = _moved(before, self.words, span.start)
        return Span(self.source, start, max(start, _moved(before, self.words, span.end)))


def _moved(before: Sequence[ConstantWord], now: Sequence[ConstantWord], at: int) -> int:
    """Where a place of one text is in another of the same shape."""
    longer = 0
    for own, word in zip(before, now, strict=True):
        if own.start + len(own.text) > at:
            return min(at + longer, word.start + len(word.text)) if own.start < at else at + longer
        longer += len(word.text) - len(own.text)
    return at + longer


def _has_best_values(statements: Sequence[s.Statement]) -> bool:
    """Whether a relation of least or greatest values is read by a rule, as in a recursion."""
    rules = [each for each in statements if isinstance(each, s.Rule) and each.body is not None]
    best = {head.name for rule in rules if _is_best(rule) for head in rule.heads}
    return any(not best.isdisjoint(relations_read(rule)) for rule in rules)


def _is_best(rule: s.Rule) -> bool:
    parts = [part for node in (rule.body, *rule.heads) for part in walk(node)]
    return any(
        (part.name if isinstance(part, s.FunctionCall) else part.kind) in ("min", "max")
        for part in parts
        if isinstance(part, s.FunctionCall | s.Aggregate)
    )


def _lifted(statement: s.Statement, parameter: Callable[[s.Const], s.Expr]) -> s.Statement:
    """A statement with parameters in its body."""

    def changed(node: Any) -> Any:
        match node:
            case s.Atom(name, args) if name not in _CALLABLE:
                return replace(node, args=tuple(map(side, args)))
            case s.Compare(first, rest) if not all(isinstance(e, s.Const) for e in sides(node)):
                return replace(node, first=side(first), rest=tuple([(o, side(e)) for o, e in rest]))
            case s.Not() | s.And() | s.Or() | s.Aggregate():
                return rebuild(node, changed)
        if type(node) in LEAVES or isinstance(node, s.Atom | s.Compare | s.Member):
            return node
        return rebuild(node, changed)

    def sides(compare: s.Compare) -> tuple[s.Expr, ...]:
        return compare.first, *(expr for _, expr in compare.rest)

    def side(expr: s.Expr) -> s.Expr:
        return parameter(expr) if isinstance(expr, s.Const) else changed(expr)

    if isinstance(statement, s.Rule | s.Query) and statement.body is not None:
        return replace(statement, body=changed(statement.body))
    return statement
