"""Cautions: things that a program may say, but probably did not mean."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gdatalog.errors import Caution
from gdatalog.parser import syntax as s
from gdatalog.parser.directive_words import QUALIFIERS
from gdatalog.plan.functions import AGGREGATES
from gdatalog.planner.check.catalog import Declarations
from gdatalog.planner.check.walk import connected, names_in, variables, walk
from gdatalog.planner.check.wording import did_you_mean, show
from gdatalog.records import replace

# Soufflé's pragmas and qualifiers without effect: either we do this anyway, or nothing needs it.
PRAGMAS = frozenset(
    (
        *("auto-schedule", "compile", "debug-report", "fact-dir", "generate", "include-dir"),
        *("inline-exclude", "jobs", "legacy", "libraries", "library-dir", "live-profile"),
        *("magic-transform", "magic-transform-exclude", "no-warn", "output-dir", "profile"),
        *("profile-frequency", "provenance", "show", "suppress-warnings", "verbose", "version"),
        "warn",
    )
)
KNOWN_QUALIFIERS = QUALIFIERS | {"override"}
_SHOWN = 6  # places that one caution lists
# Of the keyword form of directives.
_OF_FILES = ("IO", "filename", "name", "delimiter", "headers", "header", "rfc4180")
OPTIONS = {
    "input": (*_OF_FILES, "columns", "nulls", "null", "fill", "row_id"),
    "output": (*_OF_FILES, "null"),
    "printsize": (),
    "limitsize": ("n",),
}
_OF_KEYWORDS = frozenset(("filename", "name", "rfc4180"))  # a path leaves these without effect


def cautions_of(
    program: s.Program, catalog: Declarations, whole: bool, earlier: Iterable[Caution] = ()
) -> tuple[Caution, ...]:
    """All cautions, in the order of the text; `earlier`: those that other checks found."""
    found = list(dict.fromkeys(earlier))
    once: list[s.Var] = []
    souffle = is_souffle(program)
    for statement in program.statements:
        match statement:
            case s.Rule(heads, body) if body is not None:
                once += _used_once(heads, body)
                found += _products(body, program)
                if souffle:
                    found += wildcards_counted(body, heads)
            case s.Query(body):
                found += _products(body, program)
                if souffle:
                    found += wildcards_counted(body)
            case s.Pragma(args) if args and args[0] not in PRAGMAS:
                message = f"the pragma `{args[0]}` is not known, and does nothing"
                found.append(Caution(message, statement.span, did_you_mean(args[0], PRAGMAS)))
            case s.Decl():
                found += _qualifiers(statement)
            case s.Directive():
                found += _options(statement)
            case _:
                pass
    found += _told_of_once(once)
    found += unsigned(program)
    if whole:
        found += _empty(program, catalog)
    found.sort(key=lambda c: (c.span is None, c.span.start if c.span else 0))
    return tuple(summed_up(found))


def _used_once(heads: Sequence[s.Atom], body: s.Literal) -> Iterator[s.Var]:
    once: dict[str, s.Var] = {}
    again: set[str] = set()
    for part in walk(body):
        if isinstance(part, s.Var) and once.setdefault(part.name, part) is not part:
            again.add(part.name)
    once = {name: var for name, var in once.items() if name not in again and name[0] != "_"}
    in_heads = names_in(heads) if once else ()
    for name, var in once.items():
        if name not in in_heads:
            yield var


def _told_of_once(found: Sequence[s.Var]) -> Iterator[Caution]:
    """One caution per text for all its variables that are used once."""
    by_source: dict[int, list[s.Var]] = {}
    for var in found:
        by_source.setdefault(id(var.span.source), []).append(var)
    for once in by_source.values():
        first = once[0]
        hint = f"if that is meant, begin the name with `_`: `_{first.name}`, or just `_`"
        message = f"the variable `{first.name}` is used only once"
        if len(once) > 1:
            shown = ", ".join([f"`{var.name}` in line {var.span.line}" for var in once[:_SHOWN]])
            more = ", ..." if len(once) > _SHOWN else ""
            message = f"{len(once)} variables are used only once: {shown}{more}"
        yield Caution(message, first.span, hint)


def summed_up(cautions: Iterable[Caution]) -> list[Caution]:
    """One caution for all of one cause in a text: the first, with the lines of the others."""
    found: list[Caution] = []
    others: dict[tuple[str, int], list[Caution]] = {}
    for caution in cautions:
        if not caution.cause or caution.span is None:
            found.append(caution)
            continue
        key = (caution.cause, id(caution.span.source))
        if key not in others:
            found.append(caution)
        others.setdefault(key, []).append(caution)
    for at, caution in enumerate(found):
        if not caution.cause or caution.span is None:
            continue
        rest = others[caution.cause, id(caution.span.source)][1:]
        lines = list(dict.fromkeys(str(c.span.line) for c in rest if c.span is not None))
        if rest:
            shown = ", ".join(lines[:_SHOWN]) + (", ..." if len(lines) > _SHOWN else "")
            said = f"line {shown}" if len(lines) == 1 else f"lines {shown}"
            message = f"{caution.message} ({len(rest)} more of this kind: {said})"
            found[at] = replace(caution, message=message)
    return found


def _single(program: s.Program) -> Iterator[str]:
    """Relations of at most one row, as `total` of `total(sum(x)) <- sale(x).`"""
    for statement in program.statements:
        if isinstance(statement, s.Rule):
            for head in statement.heads:
                if head.args and all(map(_is_total, head.args)):
                    yield head.name


def _is_total(arg: s.Expr) -> bool:
    if not isinstance(arg, s.FunctionCall) or arg.name not in AGGREGATES:
        return False
    return arg.name not in ("min", "max") or len(arg.args) == 1


def _products(literal: s.Literal, program: s.Program) -> Iterator[Caution]:
    """Conjunctions that are cross products: nothing connects some of their atoms."""
    match literal:
        case s.And(items):
            atoms = _unconnected(items, program)
            if len(atoms) > 1:
                message = (
                    f"{show(atoms[0])} and {show(atoms[1])} share no variable: every match of "
                )
                message += "one goes with every match of the other"
                hint = "if that is not meant, a variable in both or a comparison would join them"
                yield Caution(message, atoms[1].span, hint, cause="product")
            for item in items:
                if isinstance(item, s.Or):
                    yield from _products(item, program)
        case s.Or(items):
            for item in items:
                yield from _products(item, program)


def _unconnected(items: Sequence[s.Literal], program: s.Program) -> list[s.Atom]:
    """The first atom of each part, where parts share no variable."""
    names = [variables(item).keys() for item in items]
    groups = connected(names)
    if len(groups) < 2:
        return []
    single = set(_single(program))
    parts = ((items[at] for at in group if names[at]) for group in groups)
    atoms = (
        next((a for a in part if isinstance(a, s.Atom) and a.name not in single), None)
        for part in parts
    )
    return sorted([each for each in atoms if each is not None], key=lambda atom: atom.span.start)


def _qualifiers(decl: s.Decl) -> Iterator[Caution]:
    for qualifier in decl.qualifiers:
        if qualifier not in KNOWN_QUALIFIERS:
            message = f"the qualifier `{qualifier}` is not known, and does nothing"
            yield Caution(message, decl.span, did_you_mean(qualifier, KNOWN_QUALIFIERS))


def _options(directive: s.Directive) -> Iterator[Caution]:
    """Those of `.input E(IO=file, delimeter=",")`."""
    kind, known = directive.kind, OPTIONS[directive.kind]
    if directive.path is not None:
        known = tuple([name for name in known if name not in _OF_KEYWORDS])
        if kind not in ("input", "output"):
            yield Caution(f"a path does nothing in .{kind}", directive.span)
    for name, _ in directive.options:
        if name in known:
            continue
        if name in OPTIONS[kind]:
            message = f"the option `{name}` does nothing beside a path"
        else:
            message = f"the option `{name}` of .{kind} is not known, and does nothing"
        hint = f"options are {', '.join(known)}" if known else f".{kind} has no options"
        yield Caution(message, directive.span, did_you_mean(name, known) or hint)


def _empty(program: s.Program, catalog: Declarations) -> Iterator[Caution]:
    """Declared relations that rules read and nothing can ever fill."""
    read: set[str] = set()
    inputs = (each for each in catalog.directives if each.kind == "input")
    filled = {name for directive in inputs for name in directive.names}
    for statement in program.statements:
        if isinstance(statement, s.Rule):
            filled.update(head.name for head in statement.heads)
        if isinstance(statement, s.Rule | s.Query) and statement.body is not None:
            for part in walk(statement.body):
                if isinstance(part, s.Atom | s.Var):  # `?- e.` asks for a relation by its name
                    read.add(part.name)
    for relation in catalog.relations.values():
        empty = relation.name not in filled and not relation.has_data
        if relation.declared and empty and relation.name in read:
            hint = "it has no facts, no rules, no `.input`, and no data was loaded into it"
            yield Caution(f"`{relation.name}` is declared, and stays empty", relation.span, hint)


def is_souffle(program: s.Program) -> bool:
    """Whether a program declares columns with types of Soufflé's."""
    return bool(_type_spans(program, ("number", "unsigned")))


def _type_spans(program: s.Program, names: Sequence[str]) -> list[s.Column | s.TypeDecl]:
    found: list[s.Column | s.TypeDecl] = []
    for statement in program.statements:
        if isinstance(statement, s.Decl):
            found += [column for column in statement.columns if column.type_name in names]
        elif isinstance(statement, s.TypeDecl) and any(t in names for t in statement.targets):
            found.append(statement)
    return found


def unsigned(program: s.Program) -> Iterator[Caution]:
    for place in _type_spans(program, ("unsigned",))[:1]:
        message = "`unsigned` is a 64-bit int here: it goes below 0, and does not wrap around "
        yield Caution(message + "where Soufflé's does", place.span)


def wildcards_counted(body: s.Literal, heads: Sequence[s.Atom] = ()) -> Iterator[Caution]:
    """Atoms with `_` beside others in a `count`: Soufflé only asks whether they have a match."""
    for node in (*heads, body):
        for part in walk(node):
            if isinstance(part, s.Aggregate) and part.kind in ("count", "sum", "mean"):
                inside = walk(part.body, s.Not, s.Aggregate)
                atoms = [each for each in inside if isinstance(each, s.Atom)]
                some = next((atom for atom in atoms if s.Wildcard in map(type, atom.args)), None)
                if some is not None and len(atoms) > 1:
                    message = f"this {part.kind} is over every match of {show(some)}: Soufflé, "
                    message += "which asks only whether there is one, can have another answer"
                    hint = "a name in the place of the `_`, such as `_y`, counts every match there "
                    hint += "too; to count one, let a rule drop the column first"
                    yield Caution(message, part.span, hint, cause="wildcard")
