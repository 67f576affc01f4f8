"""The alternatives of a body: `;` distributed over `,`."""

from __future__ import annotations

from gdatalog.errors import Error
from gdatalog.parser import syntax as s

MOST_ALTERNATIVES = 4096  # alternatives of one body


def alternatives_of(literal: s.Literal) -> list[list[s.Literal]]:
    """The literal in disjunctive normal form; negations are kept as they are."""
    match literal:
        case s.Or():
            return [parts for item in literal.items for parts in alternatives_of(item)]
        case s.And():
            product: list[list[s.Literal]] = [[]]
            for item in literal.items:
                choices = alternatives_of(item)
                if len(product) * len(choices) > MOST_ALTERNATIVES:
                    raise Error(
                        f"this body has more than {MOST_ALTERNATIVES} alternatives",
                        literal.span,
                        hint="give a group with `;` a name: a relation of its own",
                    )
                if len(choices) == 1:  # a body may have very many literals
                    for left in product:
                        left += choices[0]
                    continue
                product = [[*left, *right] for left in product for right in choices]
            return product
        case s.Not(body=s.Not() as inner):
            return alternatives_of(inner.body)
        case _:
            return [[literal]]
