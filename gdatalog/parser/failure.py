"""A statement that the grammar refused, and where."""

from __future__ import annotations

from gdatalog.errors import ParseError, Span
from gdatalog.parser.tokens import Token
from gdatalog.records import dataclass

CLOSING = {"LPAR": "RPAR", "LBRACE": "RBRACE"}
Explained = tuple[ParseError, int | None]  # and where to go on, if before the statement's end


@dataclass(slots=True)
class Failure:
    """A statement, and the index of the token at which it failed (past the last: its end)."""

    tokens: list[Token]
    at: int
    stop: str

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


def mistake(message: str, span: Span, hint: str | None = None) -> ParseError:
    return ParseError(message, span, hint=hint)


def new_line(before: Token, token: Token) -> bool:
    """Whether a line ends between two tokens."""
    return "\n" in token.source.text[before.end : token.start]


def brackets(failure: Failure) -> ParseError | None:
    """A bracket that is not closed, or one that closes nothing."""
    open_: list[Token] = []
    for token in failure.tokens:
        if token.type in CLOSING:
            open_.append(token)
        elif token.type in ("RPAR", "RBRACE"):
            if not open_:
                return mistake(
                    f"this `{token.text}` closes nothing",
                    token.span,
                    "take it out, or put in what it should close",
                )
            if CLOSING[open_[-1].type] != token.type:
                return mistake(
                    f"this `{token.text}` meets a `{open_[-1].text}`",
                    token.span,
                    f"the `{open_[-1].text}` in column {open_[-1].span.column} is closed "
                    f"by `{ {'(': ')', '{': '}'}[open_[-1].text] }`",
                )
            open_.pop()
    if open_:
        last = failure.tokens[-1]
        after = last.source.text[last.end : last.end + 2]
        if last.text.isdigit() and after[:1] == "." and after[1:].strip():
            end = Span(last.source, last.start, last.end + 1)
            hint = f"`{last.text}.` is {last.text} and the end: write {last.text}.0"
            return mistake("the statement ends here, within parentheses", end, hint)
        return mistake(
            f"this `{open_[-1].text}` is never closed",
            open_[-1].span,
            "the statement ends before its "
            f"`{ {'(': ')', '{': '}'}[open_[-1].text] }`; is one missing?",
        )
    return None


def innermost(failure: Failure) -> str | None:
    """What kind of bracket the failure is inside: "call", "group", "braces"."""
    open_: list[str] = []
    for at, token in enumerate(failure.tokens[: failure.at]):
        if token.type == "LPAR":
            call = at and failure.tokens[at - 1].type == "NAME"
            open_.append("call" if call else "group")
        elif token.type == "LBRACE":
            open_.append("braces")
        elif token.type in ("RPAR", "RBRACE") and open_:
            open_.pop()
    return open_[-1] if open_ else None
