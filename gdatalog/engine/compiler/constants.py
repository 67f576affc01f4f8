"""Texts that differ only in constants share one program, in which these are parameters.

Constants that are whole arguments of atoms or sides of comparisons, in bodies, become parameters:
types, and what rewriting does, do not depend on their values, but on which of them are equal. Other
constants stay: a divisor, a pattern, a list, a fact. The texts of one `Shape` differ only in what
became parameters. Errors point into the text that was given.
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
from gdatalog.planner.check.walk import LEAVES, rebuild, walk_all
from gdatalog.planner.check.walk import reads_of as relations_read
from gdatalog.records import dataclass, replace
from gdatalog.values import INT_MAX, Value

MOST = 64  # constants of a text; a text with more holds data
LONGEST = 4_000  # characters of a text

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
class Word:
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
class Form:
    """A text without its constants, and the constants in order."""

    rest: tuple[str, ...]
    words: tuple[Word, ...]

    @staticmethod
    def of(text: str) -> Form | None:
        """None if the text has no constants that can be parameters, or too many."""
        if len(text) > LONGEST:
            return None
        words: list[Word] = []
        rest: list[str] = []
        known: dict[tuple[str, str], int] = {}
        at = 0
        for found in _WORD.finditer(text):
            kind = found.lastgroup
            if kind is None:
                continue
            word, number = found.group(), len(words)
            if number == MOST or (kind == "int" and int(word) > INT_MAX):
                return None
            first = known.setdefault((kind, word), number)
            words.append(Word(kind, word, found.start(), first))
            rest += text[at : found.start()], f"{kind} {first}"
            at = found.end()
        return Form((*rest, text[at:]), tuple(words)) if words else None


class Shape:
    """The texts that are alike but for their constants; made of the first of them."""

    def __init__(self, form: Form, text: str, program: Program) -> None:
        self.form = form
        self.text = text
        self.program = program
        # The numbers of the constants that are parameters, by name.
        self.signs: dict[str, tuple[str, int]] = {}
        self.shared: Program | None = None
        self._made = False

    def program_for(self, form: Form) -> Program | None:
        """The program with parameters, if it serves a text of this form; the same object each
        time."""
        if not self._made:
            self._made = True
            self.shared = self._lifted()
        if self.shared is None:
            return None
        lifted = {number for _, number in self.signs.values()}
        pairs = zip(self.form.words, form.words, strict=True)
        same = all(own.text == word.text for own, word in pairs if own.first not in lifted)
        return self.shared if same else None

    def refuse(self) -> None:
        """Called when the program with parameters is not valid: its texts are read one by one."""
        self.shared = None

    def params(self, form: Form) -> dict[str, Value]:
        return {name: form.words[at].value(sign) for name, (sign, at) in self.signs.items()}

    def _lifted(self) -> Program | None:
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
            self.signs[name] = sign, word.first
            kept.discard(id(word))
            return s.Param(name, const.span)

        lifted = tuple(_lifted(statement, parameter) for statement in statements)
        # An equal constant that stays would have to stay equal.
        stay = {word.first for word in self.form.words if id(word) in kept}
        if not self.signs or any(number in stay for _, number in self.signs.values()):
            return None
        return Program(lifted)

    @contextmanager
    def speaking_of(self, form: Form, source: SourceText) -> Iterator[None]:
        """Within this context, errors speak of the text that was given."""
        try:
            yield
        except Error as error:
            for each in error.all:
                each.message = self._plain(each.message, form)
                each.args = (each.message,)
                each.hint = None if each.hint is None else self._plain(each.hint, form)
                each.span = self._moved(each.span, form, source)
                each.notes = tuple(
                    Note(self._plain(note.message, form), self._moved(note.span, form, source))
                    for note in each.notes
                )
            raise

    def caution(self, caution: Caution, form: Form, source: SourceText) -> Caution:
        """A caution about the text that was given."""
        message = self._plain(caution.message, form)
        hint = None if caution.hint is None else self._plain(caution.hint, form)
        span = self._moved(caution.span, form, source)
        return replace(caution, message=message, hint=hint, span=span)

    def _plain(self, text: str, form: Form) -> str:
        return _HIDDEN.sub(lambda found: found[1] + form.words[int(found[2])].text, text)

    def _moved(self, span: Span | None, form: Form, source: SourceText) -> Span | None:
        if span is None or span.source.text != self.text:
            return span
        start = _moved(self.form.words, form.words, span.start)
        return Span(source, start, max(start, _moved(self.form.words, form.words, span.end)))


def _moved(before: Sequence[Word], now: Sequence[Word], at: int) -> int:
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
    parts = walk_all(rule.body, *(arg for head in rule.heads for arg in head.args))
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
                return replace(node, first=side(first), rest=tuple((o, side(e)) for o, e in rest))
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
