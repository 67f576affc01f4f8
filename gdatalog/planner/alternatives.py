"""The alternatives of a body: `;` distributed over `,`."""

from __future__ import annotations

from gdatalog.errors import Error
from gdatalog.parser.syntax import And, Literal, Not, Or

MOST = 4096  # alternatives of one body


def alternatives_of(literal: Literal) -> list[list[Literal]]:
    """The literal in disjunctive normal form; negations are kept as they are."""
    match literal:
        case Or():
            return [parts for item in literal.items for parts in alternatives_of(item)]
        case And():
            product: list[list[Literal]] = [[]]
            for item in literal.items:
                choices = alternatives_of(item)
                if len(product) * len(choices) > MOST:
                    raise Error(
                        f"this body has more than {MOST} alternatives",
                        literal.span,
                        hint="give a group with `;` a name: a relation of its own",
                    )
                if len(choices) == 1:  # a body may have very many literals
                    for left in product:
                        left += choices[0]
                    continue
                product = [[*left, *right] for left in product for right in choices]
            return product
        case Not(body=Not() as inner):
            return alternatives_of(inner.body)
        case _:
            return [[literal]]
