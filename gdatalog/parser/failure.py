"""Statements that the grammar rejects, and error messages for brackets."""

from __future__ import annotations

from gdatalog.errors import ParseError, Span
from gdatalog.parser.tokens import VALUES, Token
from gdatalog.records import dataclass

_CLOSES = {"(": ")", "{": "}"}
CLOSING = {"LPAR": "RPAR", "LBRACE": "RBRACE"}
ENDS = VALUES | {"RPAR", "RBRACE"}  # tokens that end a value
Explained = tuple[ParseError, int | None]  # the error, and where to resume within the statement


@dataclass(slots=True)
class Failure:
    """A statement, and the index of the token at which parsing failed (the number of tokens: at its
    end)."""

    tokens: list[Token]
    at: int

    @property
    def token(self) -> Token | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    @property
    def before(self) -> Token | None:
        return self.tokens[self.at - 1] if self.at else None

    @property
    def after(self) -> Token | None:
        return self.tokens[self.at + 1] if self.at + 1 < len(self.tokens) else None

    @property
    def span(self) -> Span:
        """The place of the failure."""
        if self.token is not None:
            return self.token.span
        last = self.tokens[-1]
        return Span(last.source, last.end, last.end)

    @property
    def innermost(self) -> str | None:
        """The kind of bracket around the failure: "call", "group" or "braces"."""
        open_: list[str] = []
        for at, token in enumerate(self.tokens[: self.at]):
            if token.type == "LPAR":
                call = at and self.tokens[at - 1].type == "NAME"
                open_.append("call" if call else "group")
            elif token.type == "LBRACE":
                open_.append("braces")
            elif token.type in ("RPAR", "RBRACE") and open_:
                open_.pop()
        return open_[-1] if open_ else None


def mistake(message: str, span: Span, hint: str | None = None) -> ParseError:
    return ParseError(message, span, hint=hint)


def missing_dot(span: Span, hint: str) -> ParseError:
    return mistake("a statement ends with a dot, which is missing here", span, hint)


def new_line(before: Token, token: Token) -> bool:
    """Whether a line ends between two tokens."""
    return "\n" in token.source.text[before.end : token.start]


def brackets(failure: Failure) -> ParseError | None:
    """The error for an unbalanced bracket."""
    open_: list[Token] = []
    for token in failure.tokens:
        if token.type in CLOSING:
            open_.append(token)
        elif token.type in ("RPAR", "RBRACE"):
            if not open_:
                hint = "take it out, or put in what it should close"
                return mistake(f"this `{token.text}` closes nothing", token.span, hint)
            if CLOSING[open_[-1].type] != token.type:
                other, column = open_[-1].text, open_[-1].span.column
                hint = f"the `{other}` in column {column} is closed by `{_CLOSES[other]}`"
                return mistake(f"this `{token.text}` meets a `{other}`", token.span, hint)
            open_.pop()
    if open_:
        last = failure.tokens[-1]
        after = last.source.text[last.end : last.end + 2]
        if last.text.isdigit() and after[:1] == "." and after[1:].strip():
            end = Span(last.source, last.start, last.end + 1)
            hint = f"`{last.text}.` is {last.text} and the end: write {last.text}.0"
            return mistake("the statement ends here, within parentheses", end, hint)
        hint = f"the statement ends before its `{_CLOSES[open_[-1].text]}`; is one missing?"
        return mistake(f"this `{open_[-1].text}` is never closed", open_[-1].span, hint)
    return None
