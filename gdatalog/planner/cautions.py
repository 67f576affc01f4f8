"""Cautions: what a program may say, but probably did not mean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from gdatalog.errors import Caution
from gdatalog.parser.syntax import (
    Aggregate,
    And,
    Atom,
    Call,
    Column,
    Decl,
    Directive,
    Literal,
    Not,
    Or,
    Pragma,
    Program,
    Query,
    Rule,
    TypeDecl,
    Var,
    Wildcard,
)
from gdatalog.planner.catalog import Catalog
from gdatalog.planner.walk import Node, children, variables, walk
from gdatalog.planner.words import did_you_mean, show

# Soufflé's pragmas and qualifiers: what they ask for is either done anyway or not needed.
PRAGMAS = frozenset(
    (
        *("auto-schedule", "compile", "debug-report", "fact-dir", "generate", "include-dir"),
        *("inline-exclude", "jobs", "legacy", "libraries", "library-dir", "live-profile"),
        *("magic-transform", "magic-transform-exclude", "no-warn", "output-dir", "profile"),
        *("profile-frequency", "provenance", "show", "suppress-warnings", "verbose", "version"),
        "warn",
    )
)
QUALIFIERS = frozenset(
    (
        *("input", "output", "printsize", "inline", "no_inline", "magic", "no_magic"),
        *("btree", "btree_delete", "brie", "override", "overridable"),
    )
)
# Of the keyword form of directives.
OPTIONS = {
    "input": (
        "IO",
        "filename",
        "name",
        "delimiter",
        "headers",
        "columns",
        "rfc4180",
        "header",
        "nulls",
        "fill",
    ),
    "output": ("IO", "filename", "name", "delimiter", "headers", "rfc4180"),
    "limitsize": ("n",),
}


def cautions_of(
    program: Program, catalog: Catalog, whole: bool, earlier: Iterable[Caution] = ()
) -> tuple[Caution, ...]:
    """All of them, in the order of the text; `earlier`: those that other checks found."""
    found = list(dict.fromkeys(earlier))
    souffle = _has_souffle_types(program)
    for statement in program.statements:
        match statement:
            case Rule(heads, body) if body is not None:
                found += _used_once(heads, body)
                found += _products(body)
                if souffle:
                    found += _wildcards_counted((*heads, body))
            case Query(body):
                found += _products(body)
                if souffle:
                    found += _wildcards_counted((body,))
            case Pragma(args) if args and args[0] not in PRAGMAS:
                message = f"the pragma `{args[0]}` is not known, and does nothing"
                found.append(Caution(message, statement.span, did_you_mean(args[0], PRAGMAS)))
            case Decl():
                found += _qualifiers(statement)
            case Directive():
                found += _options(statement)
            case _:
                pass
    found += _unsigned(program)
    if whole:
        found += _empty(program, catalog)
    found.sort(key=lambda c: (c.span is None, c.span.start if c.span else 0))
    return tuple(found)


def _used_once(heads: Sequence[Atom], body: Literal) -> Iterator[Caution]:
    seen: Counter[str] = Counter()
    first: dict[str, Var] = {}
    for node in (*heads, body):
        for part in walk(node):
            if isinstance(part, Var):
                seen[part.name] += 1
                first.setdefault(part.name, part)
    in_heads = {name for head in heads for name in variables(head)}
    for name, var in first.items():
        if seen[name] == 1 and not name.startswith("_") and name not in in_heads:
            hint = f"write `_` if it is not needed, or `_{name}` to keep the name"
            yield Caution(f"the variable `{name}` is used only once", var.span, hint)


def _products(literal: Literal) -> Iterator[Caution]:
    """Conjunctions that fall apart into atoms that nothing connects."""
    match literal:
        case And(items):
            atoms = _unconnected(items)
            if len(atoms) > 1:
                yield Caution(
                    f"{show(atoms[0])} and {show(atoms[1])} share no variable: every match of "
                    "one goes with every match of the other",
                    atoms[1].span,
                    "if that is not meant, a variable in both or a comparison would join them",
                )
            for item in items:
                yield from _products(item)
        case Or(items):
            for item in items:
                yield from _products(item)
        case _:
            return


def _unconnected(items: Sequence[Literal]) -> list[Atom]:
    """The first atom of each part, where parts share no variable."""
    parts: list[tuple[set[str], Atom | None]] = []
    for item in items:
        names = set(variables(item))
        if not names:
            continue
        atom = item if isinstance(item, Atom) else None
        apart: list[tuple[set[str], Atom | None]] = []
        for part_names, part_atom in parts:
            if names & part_names:
                names |= part_names
                atom = part_atom or atom
            else:
                apart.append((part_names, part_atom))
        parts = [*apart, (names, atom)]
    atoms = [atom for _, atom in parts if atom is not None]
    return sorted(atoms, key=lambda atom: atom.span.start)


def _qualifiers(decl: Decl) -> Iterator[Caution]:
    for qualifier in decl.qualifiers:
        if qualifier not in QUALIFIERS:
            message = f"the qualifier `{qualifier}` is not known, and does nothing"
            yield Caution(message, decl.span, did_you_mean(qualifier, QUALIFIERS))


def _options(directive: Directive) -> Iterator[Caution]:
    """Those of `.input E(IO=file, delimeter=",")`."""
    known = OPTIONS.get(directive.kind, ())
    for name, _ in directive.options:
        if known and name not in known:
            yield Caution(
                f"the option `{name}` of .{directive.kind} is not known, and does nothing",
                directive.span,
                did_you_mean(name, known) or f"options are {', '.join(known)}",
            )


def _empty(program: Program, catalog: Catalog) -> Iterator[Caution]:
    """Declared relations that are read, and that nothing will ever be in."""
    filled: set[str] = set()
    read: set[str] = set()
    for directive in catalog.directives:
        if directive.kind == "input":
            filled.update(directive.names)
    for statement in program.statements:
        if isinstance(statement, Rule):
            filled.update(head.name for head in statement.heads)
        if isinstance(statement, Rule | Query) and statement.body is not None:
            for part in walk(statement.body):
                if isinstance(part, Atom | Var):  # `?- e.` asks for a relation by its name
                    read.add(part.name)
    for relation in catalog.relations.values():
        empty = relation.name not in filled and not relation.has_data
        if relation.declared and empty and relation.name in read:
            yield Caution(
                f"`{relation.name}` is declared, and stays empty",
                relation.span,
                "it has no facts, no rules, no `.input`, and no data was loaded into it",
            )


# ------------------------------------------------------------------ programs of Soufflé's


def _has_souffle_types(program: Program) -> bool:
    return bool(_type_spans(program, ("number", "unsigned")))


def _type_spans(program: Program, names: Sequence[str]) -> list[Column | TypeDecl]:
    found: list[Column | TypeDecl] = []
    for statement in program.statements:
        if isinstance(statement, Decl):
            found += [column for column in statement.columns if column.type_name in names]
        elif isinstance(statement, TypeDecl) and any(t in names for t in statement.targets):
            found.append(statement)
    return found


def _unsigned(program: Program) -> Iterator[Caution]:
    for place in _type_spans(program, ("unsigned",))[:1]:
        yield Caution(
            "`unsigned` is a 64-bit int here: it goes below 0, and does not wrap around where "
            "Soufflé's does",
            place.span,
        )


def _wildcards_counted(nodes: Sequence[Node]) -> Iterator[Caution]:
    counting = ("count", "sum", "mean")
    body = nodes[-1]
    for node in nodes:
        for part in walk(node):
            if isinstance(part, Aggregate):
                inside: Node = part.body
                kind = part.kind
            elif isinstance(part, Call) and node is not body:
                inside, kind = body, part.name
            else:
                continue
            if kind in counting and _has_wildcard(inside):
                yield Caution(
                    f"this {kind} is over every match, and a `_` makes matches differ: "
                    "Soufflé's answer can be another",
                    part.span,
                    "let a rule drop the column first, if each of the rest should count once",
                )


def _has_wildcard(node: Node) -> bool:
    if isinstance(node, Not):
        return False
    if isinstance(node, Wildcard):
        return True
    return any(_has_wildcard(child) for child in children(node))
