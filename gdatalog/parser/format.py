"""Formats a syntax tree as text: parse(format_node(p)) == p, apart from spans.

Parentheses are written only where needed. Nodes that only the checks create are formatted for
explanations; a renamed variable (`y~2`) is written as it is.
"""

from __future__ import annotations

import re

from gdatalog.parser import syntax as s
from gdatalog.parser.fact_statements import one_by_one
from gdatalog.parser.tokens import BINARY, POWER, PREFIX
from gdatalog.parser.words import AGGREGATES, INFIX_WORDS, column_name
from gdatalog.values import constant_text, is_list, quoted, shown_name

Node = s.Expr | s.HeadAggregate | s.Literal | s.Statement | s.Column | s.Program
_WHOLE = 100  # binds tighter than any operator


def format_node(node: Node) -> str:
    """Formats any node, a program with one statement per line; parsing the text gives an equal
    node."""
    match node:
        case s.Program():
            return "".join([format_node(statement) + "\n" for statement in node.statements])
        case s.Facts():
            return "\n".join(map(format_node, one_by_one([node])))
        case s.Rule(heads, body):
            head = ", ".join([_literal(atom) for atom in heads])
            return f"{head}." if body is None else f"{head} <- {_literal(body)}."
        case s.Query(body):
            text = _literal(body)
            # `--` at the start of a statement is an error: it looks like an SQL comment.
            bare = text.replace("--", "- -", 1) if text.startswith("--") else text
            order = "" if node.ordering is None else _ordering(node.ordering)
            return f"{bare}{order}." if node.bare else f"?- {text}{order}."
        case s.Retract(atom, body):
            where = "" if body is None else f" where {_literal(body)}"
            return f"retract {_literal(atom)}{where}."
        case s.Column():
            return f"{column_name(node.name)}: {node.type_name}{'?' * node.nullable}"
        case s.Decl() | s.TypeDecl() | s.Directive() | s.Include() | s.Pragma() | s.PlanHint():
            return _directive(node)
        case _:
            return _literal(node) if isinstance(node, s.Literal) else _value(node)


def _ordering(ordering: s.Ordering) -> str:
    keys = _keys(ordering.rest)
    text = f" order by {keys}" if keys else ""
    text += "" if ordering.limit is None else f" limit {_value(ordering.limit)}"
    return text + ("" if ordering.offset is None else f" offset {_value(ordering.offset)}")


def _keys(keys: tuple[tuple[str, s.Expr], ...]) -> str:
    return ", ".join([_value(key) + " desc" * (word == "desc") for word, key in keys])


def _value(node: s.Expr | s.HeadAggregate, least: int = 0) -> str:
    """Formats an expression; adds parentheses if it binds less tightly than `least`."""
    text, tight = _tightness(node)
    return text if tight >= least else f"({text})"


def _tightness(node: s.Expr | s.HeadAggregate) -> tuple[str, int]:
    match node:
        case s.Const():
            text = constant_text(node.type, node.value)
            return text, PREFIX if text.startswith("-") else _WHOLE
        case s.Null():
            return "null", _WHOLE
        case s.Var(name):
            return name, _WHOLE
        case s.Wildcard():
            return "_", _WHOLE
        case s.Param(name) | s.ListParam(name):
            return f"${name}", _WHOLE
        case s.Values():
            return _list(node.constants()), _WHOLE
        case s.FunctionCall(name, (left, right)) if name in BINARY:
            tight = BINARY[name]
            # An operand of equal precedence needs no parentheses on the side of associativity.
            first = _value(left, tight + (tight == POWER))
            if tight == POWER:
                return f"{first}^{_value(right, PREFIX)}", tight
            return f"{first} {name} {_value(right, tight + 1)}", tight
        case s.Chain(start, rest):
            tight = BINARY[rest[0][0]]
            parts = [_value(start, tight)]
            parts += [f"{op} {_value(operand, tight + 1)}" for op, operand in rest]
            return " ".join(parts), tight
        case s.FunctionCall("-", (operand,)):
            if isinstance(operand, s.Const) and operand.type in ("int", "float", "duration"):
                return f"-({constant_text(operand.type, operand.value)})", PREFIX
            return f"-{_value(operand, PREFIX)}", PREFIX
        case s.FunctionCall("unless null", (value, *_)):  # of the checks
            return _tightness(value)
        case s.FunctionCall("if" | "case" as name, args):
            last = len(args) - 1
            shown = [
                _value(arg) if at % 2 or at == last else _condition(arg)
                for at, arg in enumerate(args)
            ]
            return f"{name}({', '.join(shown)})", _WHOLE
        case s.FunctionCall(name, args):
            return f"{name}({_list(args)})", _WHOLE
        case s.Window(name, args, partition, keys):
            inside = [_list(args)] if args else []
            inside += [f"partition by {_list(partition)}"] if partition else []
            inside += [f"{'by' if name == 'top' else 'order by'} {_keys(keys)}"] if keys else []
            return f"{name}({' '.join(inside)})", _WHOLE
        case s.Cast(operand, type_name):
            return f"as({_value(operand)}, {type_name})", _WHOLE
        case s.Aggregate(kind, targets, body):
            before = " ".join([kind, ", ".join(map(_target, targets))]).rstrip()
            return f"{before} : {{ {_literal(body)} }}", _WHOLE
        case s.HeadAggregate(kind, targets, _, parted, down):
            at, end = len(targets) - parted - len(down), len(targets) - len(down)
            words = ["desc" if turn else "asc" for turn in down]
            keys = tuple(zip(words, targets[end:], strict=True))
            if not parted and not down:
                return f"{kind}({_list(targets)})", _WHOLE
            return _tightness(s.Window(kind, targets[:at], targets[at:end], keys))


def _condition(node: s.Expr) -> str:
    """Formats a condition of `if` or `case`."""
    match node:
        case s.FunctionCall("=" | "!=" | "<" | "<=" | ">" | ">=" as op, (left, right)):
            return f"{_value(left)} {op} {_value(right)}"
        case s.FunctionCall("land" | "lor" as op, (left, right)):
            sign = "," if op == "land" else ";"
            return f"({_condition(left)}{sign} {_condition(right)})"
        case s.FunctionCall("lnot", (inner,)):
            return f"!({_condition(inner)})"
    return _value(node)


_WORD = re.compile(rf"\b(?:in|{'|'.join((*AGGREGATES, *sorted(INFIX_WORDS)))})\b")


def _target(node: s.Expr) -> str:
    """Formats an aggregate's expression, in parentheses if a name in it could be read as a
    keyword."""
    text = _value(node)
    return f"({text})" if _WORD.search(text) else text


def _list(nodes: tuple[s.Expr, ...]) -> str:
    return ", ".join([_value(node) for node in nodes])


def _literal(node: s.Literal) -> str:
    match node:
        case s.Atom(name, (item,)) if is_list(name):
            return f"{_value(item)} in {shown_name(name)}"
        case s.Atom(name, args):
            places = len(args) - len(node.columns)
            named = zip(node.columns, args[places:], strict=True)
            shown = [_list(args[:places])] if places else []
            shown += [f"{column_name(column.name)} = {_value(arg)}" for column, arg in named]
            return f"{name}({', '.join(shown)})"
        case s.Compare(first, ((op, s.Values() as many),)):
            return ", ".join([f"{_value(first)} {op} {_value(c)}" for c in many.constants()])
        case s.Compare(first, rest):
            return _value(first) + "".join([f" {op} {_value(side)}" for op, side in rest])
        case s.Member(item, values):
            if isinstance(values[0], s.ListParam):
                return f"{_value(item)} in {_value(values[0])}"
            return f"{_value(item)} in {{{_list(values)}}}"
        case s.Test(expr):
            return _value(expr)
        case s.Not(body):
            return f"!{_grouped(body) if _is_group(body) else _literal(body)}"
        case s.Optional(body):
            text = _literal(body)
            return f"optional {text if isinstance(body, s.Atom) else f'{{ {text} }}'}"
        case s.And(items):
            return ", ".join(
                _grouped(item) if isinstance(item, s.Or) else _literal(item) for item in items
            )
        case s.Or(items):
            return " ; ".join([_literal(item) for item in items])
        case s.Distinct(args):
            return f"distinct({_list(args)})"
        case s.Range(item, start, stop, step):
            return f"{_value(item)} = range({_list((start, stop, step))})"


def _is_group(node: s.Literal) -> bool:
    """Whether the node is formatted as several literals."""
    many = isinstance(node, s.Compare) and isinstance(node.rest[0][1], s.Values)
    return many or isinstance(node, s.And | s.Or)


def _grouped(node: s.Literal) -> str:
    return f"({_literal(node)})"


def _directive(node: s.Decl | s.TypeDecl | s.Directive | s.Include | s.Pragma | s.PlanHint) -> str:
    match node:
        case s.Decl(names, columns, qualifiers):
            inside = ", ".join([format_node(column) for column in columns])
            return " ".join([f".decl {', '.join(names)}({inside})", *qualifiers])
        case s.TypeDecl(name, op, targets):
            return f".type {name} {op} {' | '.join(targets)}"
        case s.Directive(kind, names, path, options):
            parts = [] if path is None else [quoted(path)]
            parts += [f"{key}={quoted(value)}" for key, value in options]
            inside = f"({', '.join(parts)})" if parts else ""
            return f".{kind} {', '.join(names)}{inside}"
        case s.Include(path):
            return f".include {quoted(path)}"
        case s.Pragma(args):
            return " ".join([".pragma", *map(quoted, args)])
        case s.PlanHint(text):
            return f".plan {text}".rstrip()
