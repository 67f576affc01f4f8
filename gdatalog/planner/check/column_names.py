"""The names of columns: those that heads give, and those that atoms and heads use.

A relation without a `.decl` takes the names of its columns from a head: a variable's name,
`sum_x` for `sum(x)`, `c0`, `c1` by its place for a constant, and the text of other expressions.

A head may name its columns: `p(x, total = sum(y)) <- ...`. Heads of one relation match by name:
their arguments are put in the relation's order, with nulls in nullable columns that they leave out.
So are those of an atom in a body, which may leave columns out: these get a `_`. Later passes see
arguments by their place only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from gdatalog.errors import Error, NameResolutionError
from gdatalog.parser import syntax as s
from gdatalog.parser.format import format_node
from gdatalog.plan.functions import AGGREGATES, ORDERED
from gdatalog.planner.check.catalog import Declarations
from gdatalog.planner.check.statements import shapes_of
from gdatalog.planner.check.wording import did_you_mean, either, own_name
from gdatalog.records import dataclass, field, replace


def names_of_columns(heads: Iterable[s.Atom]) -> dict[str, tuple[str, ...]]:
    """The column names of each relation: from its first head that has only different variables and
    aggregates, otherwise from its first head."""
    found: dict[str, tuple[str, ...]] = {}
    plain: set[str] = set()
    for head in heads:
        best = head.name not in plain and _is_plain(head)
        if best or head.name not in found:
            found[head.name] = names_of_head(head)
        if best:
            plain.add(head.name)
    return found


def names_of_head(head: s.Atom) -> tuple[str, ...]:
    names: list[str] = []
    for at, arg in enumerate(head.args):
        if isinstance(arg, s.Var):
            names.append(own_name(arg.name))
        elif isinstance(arg, s.Aggregate):  # name resolution makes it a variable of this name
            names.append(arg.kind)
        elif (aggregate := _aggregate(arg)) is not None:
            kind, targets = aggregate
            target = targets[0] if len(targets) == 1 else None
            names.append(f"{kind}_{target.name}" if isinstance(target, s.Var) else kind)
        elif isinstance(arg, s.Const | s.Null | s.Param):
            names.append(f"c{at}")
        else:
            names.append(format_node(arg))
    return _unique(names)


def _aggregate(arg: s.Expr | s.HeadAggregate) -> tuple[str, tuple[s.Expr, ...]] | None:
    """The kind and targets of an argument that aggregates, before and after name resolution."""
    if isinstance(arg, s.HeadAggregate):
        return arg.kind, arg.targets
    if isinstance(arg, s.FunctionCall) and arg.name in AGGREGATES:
        return arg.name, arg.args
    if isinstance(arg, s.FunctionCall | s.Window) and arg.name in ORDERED:
        return arg.name, ()
    return None


def _is_plain(head: s.Atom) -> bool:
    names = [arg.name for arg in head.args if isinstance(arg, s.Var)]
    others = [arg for arg in head.args if not isinstance(arg, s.Var) and _aggregate(arg) is None]
    return not others and len(set(names)) == len(names)


def _unique(names: Sequence[str]) -> tuple[str, ...]:
    taken: set[str] = set(names)
    found: list[str] = []
    for name in names:
        new, number = name, 2
        while new in found or (new != name and new in taken):
            new, number = f"{name}_{number}", number + 1
        found.append(new)
    return tuple(found)


@dataclass(slots=True, eq=False)
class ColumnNames:
    """The columns of a program's relations: the declared or known ones, else those of heads, which
    are looked at when they are asked for.

    `named`: the columns of relations whose heads name some.
    """

    program: s.Program
    catalog: Declarations
    named: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _of_heads: dict[str, tuple[str, ...]] | None = None

    def of(self, name: str) -> tuple[str, ...]:
        relation = self.catalog.relations[name]
        if relation.schema is not None:
            return relation.schema.columns
        if name in self.named:
            return self.named[name]
        unnamed = tuple([f"c{at}" for at in range(relation.arity or 0)])
        return self.of_heads().get(name, unnamed)

    def of_heads(self) -> dict[str, tuple[str, ...]]:
        """Those of the rules, as they are written."""
        if self._of_heads is None:
            heads: list[s.Atom] = []
            for rule in self.program.statements:
                if isinstance(rule, s.Rule) and shapes_of(rule) is None:
                    heads += rule.heads
            self._of_heads = names_of_columns(heads)
        return self._of_heads

    def shown(self, name: str) -> tuple[str, ...]:
        """The columns that answers have: all but hidden row numbers."""
        schema = self.catalog.relations[name].schema
        return self.of(name) if schema is None else schema.columns[: schema.shown]

    def with_row_id(self, atom: s.Atom) -> s.Atom:
        """An atom of a body, with a `_` for hidden row numbers that it leaves out."""
        schema = self.catalog.relations[atom.name].schema
        if schema is None or not len(atom.args) == schema.shown < schema.arity:
            return atom
        return replace(atom, args=(*atom.args, s.Wildcard(atom.span)))

    def placed(self, atom: s.Atom, errors: list[Error]) -> s.Atom:
        """An atom of a body with all arguments by their place."""
        return _placed(atom, self.of(atom.name), None, errors)


def place_named(program: s.Program, catalog: Declarations, errors: list[Error]) -> ColumnNames:
    """The program with all arguments of heads by their place, and the columns of its relations."""
    found = ColumnNames(program, catalog)
    rules = [statement for statement in program.statements if isinstance(statement, s.Rule)]
    named = {head.name for rule in rules for head in rule.heads if head.columns}
    if not named:
        return found
    for rule in rules:
        for head in rule.heads:
            if head.name in named and head.name not in found.named:
                schema = catalog.relations[head.name].schema
                found.named[head.name] = _first_columns(head) if schema is None else schema.columns
    statements = []
    for statement in program.statements:
        if isinstance(statement, s.Rule) and any(head.columns for head in statement.heads):
            before = len(errors)
            heads = []
            for head in statement.heads:
                columns, schema = found.named[head.name], catalog.relations[head.name].schema
                optional = schema.nullable if schema is not None and schema.nullable else ()
                null = {name for name, null in zip(columns, optional, strict=False) if null}
                heads.append(_placed(head, columns, null, errors))
            if len(errors) > before:
                continue
            statement = replace(statement, heads=tuple(heads))
        statements.append(statement)
    found.program = s.Program(tuple(statements))
    return found


def _first_columns(head: s.Atom) -> tuple[str, ...]:
    """Those of a head that decides what its relation's columns are."""
    places = len(head.args) - len(head.columns)
    by_place = names_of_head(replace(head, args=head.args[:places], columns=()))
    return (*by_place, *(column.name for column in head.columns))


def _placed(
    atom: s.Atom, columns: tuple[str, ...], nullable: Collection[str] | None, errors: list[Error]
) -> s.Atom:
    """An atom with its arguments by their place. It may leave out all columns, which get a `_`; if
    it is a head, those that are `nullable`."""
    if not atom.columns:
        return atom
    places = len(atom.args) - len(atom.columns)
    given: dict[str, s.Expr] = {}
    before = len(errors)

    def wrong(message: str, place: s.Var | s.Atom, hint: str | None) -> None:
        errors.append(NameResolutionError(message, place.span, hint=hint))

    for column, arg in zip(atom.columns, atom.args[places:], strict=True):
        name = column.name
        if name in given or name in columns[:places]:
            wrong(f"the column `{name}` of `{atom.name}` is given twice", column, None)
        elif name not in columns:
            has = f"its columns are {either([f'`{c}`' for c in columns], 'and')}"
            hint = did_you_mean(name, columns) or has
            wrong(f"`{atom.name}` has no column `{name}`", column, hint)
        given[name] = arg
    missing = [name for name in columns[places:] if name not in given]
    if nullable is not None:
        missing = [name for name in missing if name not in nullable]
        if missing and len(errors) == before:
            which = either([f"`{name}`" for name in missing], "and")
            hint = "each head of a relation gives all of its columns but those declared with a `?`"
            wrong(f"this head leaves out {which} of `{atom.name}`", atom, hint)
    if len(errors) > before:
        return atom
    other = s.Wildcard(atom.span) if nullable is None else s.Null(None, atom.span)
    rest = (given.get(name, other) for name in columns[places:])
    return replace(atom, args=(*atom.args[:places], *rest), columns=())
