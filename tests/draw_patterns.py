"""Drawing patterns over small graphs: bodies with chains, `distinct`, labels, filters, negations.

The graphs are symmetric, nearly so, ascending, nearly so, with loops and without; their vertices
are numbered so that degrees are in another order than values. `numbers.shuffle` sees to it that
the text's order of atoms means nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from random import Random

from tests.oracle_values import Value

Rows = list[tuple[Value, ...]]
Data = dict[str, tuple[tuple[str, ...], Rows]]

VALUES: dict[str, tuple[Value, ...]] = {
    "int": (-7, 0, 3, 4, 9, 2**31 + 5),
    "float": (-2.0, 0.0, 0.5, 1.5, 8.25, 1e300),
    "symbol": ("b", "", "a", "ab", "B", "é"),
}
SHAPES = {
    "edge": "ab",
    "wedge": "ab bc",
    "triangle": "ab bc ac",
    "path": "ab bc cd",
    "star": "ab ac ad",
    "cycle": "ab bc cd da",
    "paw": "ab bc ac cd",
    "diamond": "ab ac ad bc bd",
    "clique": "ab ac ad bc bd cd",
    "two": "ab cd",
    "bowtie": "ab bc ac cd de ec",
}


@dataclass(frozen=True)
class Pattern:
    text: str
    data: Data
    number: int

    def __repr__(self) -> str:
        data = "\n".join(f"// {name}{types}: {rows}" for name, (types, rows) in self.data.items())
        return f"\n// number {self.number}\n{self.text}\n{data}\n"


class Drawing:
    def __init__(self, number: int) -> None:
        self.number = number
        self.random = Random(number)
        self.type = self.random.choice(["int", "int", "int", "float", "symbol"])

    def chance(self, percent: int) -> bool:
        return self.random.randrange(100) < percent

    # ----------------------------------------------------------------------------------- data

    def graph(self) -> Rows:
        """Dense around the first vertices of a random order."""
        random = self.random
        values = random.sample(VALUES[self.type], 6)
        kind = random.choice(["both", "both", "both", "both", "up", "up", "any"])
        rows: set[tuple[Value, ...]] = set()
        for (at, a), (_, b) in combinations(enumerate(values), 2):
            if not self.chance(85 - 12 * at):
                continue
            low, high = sorted((a, b))  # type: ignore[type-var]
            if kind == "any":
                rows.add(random.choice([(a, b), (b, a)]))
            else:
                rows |= {(low, high)} | ({(high, low)} if kind == "both" else set())
        if self.chance(20):
            loop = random.choice(values)
            rows.add((loop, loop))
        if self.chance(12) and rows:
            rows.discard(random.choice(sorted(rows)))  # type: ignore[type-var]
        if self.chance(5):
            rows.add((values[0], values[1]))
        return sorted(rows)  # type: ignore[type-var]

    def data(self) -> Data:
        values = VALUES[self.type]
        labelled = [(value,) for value in values if self.chance(60)]
        named = [(v, at % 3) for at, v in enumerate(values) for at in range(3) if self.chance(40)]
        return {
            "E": ((self.type, self.type), self.graph()),
            "F": ((self.type, self.type), self.graph()),
            "L": ((self.type,), labelled),
            "N": ((self.type, "int"), sorted(named)),  # type: ignore[type-var]
        }

    # ----------------------------------------------------------------------------------- body

    def body(self) -> tuple[list[str], list[str]]:
        """Literals, and the variables of the pattern."""
        random = self.random
        edges = SHAPES[random.choice(list(SHAPES))].split()
        if self.chance(15):
            edges.remove(random.choice(edges)) if len(edges) > 1 else None
        names = sorted(set("".join(edges)))
        rename = dict(zip(names, random.sample("abcde", len(names)), strict=True))
        literals = []
        for edge in edges:
            x, y = (rename[name] for name in edge)
            if self.chance(30):
                x, y = y, x
            literals.append(f"{'F' if self.chance(6) else 'E'}({x}, {y})")
        names = sorted(rename.values())
        for _ in range(random.choice([1, 1, 1, 2])):
            literals += self.order(random.sample(names, len(names)))
        for _ in range(random.choice([0, 0, 0, 1, 2])):
            literals += self.extra(names)
        random.shuffle(literals)
        return literals, names

    def order(self, names: list[str]) -> list[str]:
        random = self.random
        some = names[: random.randint(min(2, len(names)), len(names))]
        kind = random.choice(["chain", "chain", "distinct", "distinct", "pairs", "part", "none"])
        if len(names) < 2 or kind == "none":
            return []
        if kind == "chain":
            op = "<=" if self.chance(10) else "<"
            return [f" {op} ".join(some if self.chance(40) else names)]
        if kind == "distinct":
            return [f"distinct({', '.join(some if self.chance(30) else names)})"]
        if kind == "part":
            return [f"distinct({', '.join(names)})", " < ".join(some)]
        ops = ["<", "<", "!=", "<="]
        pairs = random.sample(list(combinations(names, 2)), min(3, len(names) - 1))
        return [f"{a} {random.choice(ops)} {b}" for a, b in pairs]

    def extra(self, names: list[str]) -> list[str]:
        """A condition on one variable, or the same on all of them."""
        random = self.random
        some = names if self.chance(50) else [random.choice(names)]
        value = random.choice(VALUES[self.type])
        shown = f'"{value}"' if isinstance(value, str) else repr(value)
        kind = random.randrange(8)
        made = {
            0: "L({0})",
            1: "!L({0})",
            2: "{0} != " + shown,
            3: "{0} < " + shown,
            4: "N({0}, _)",
            5: "N({0}, n{0})",
            6: "!(E({0}, w{0}), L(w{0}))",
            7: "E({0}, u)",  # a neighbour of all
        }[kind]
        return [made.format(name) for name in some]

    # ------------------------------------------------------------------------------- programs

    def program(self) -> str:
        random = self.random
        literals, names = self.body()
        body = ", ".join(literals)
        some = random.sample(names, random.randint(1, len(names)))
        kind = random.randrange(12)
        if kind <= 4:
            return f"p(count()) <- {body}."
        if kind == 5:
            return f"p({', '.join(names)}) <- {body}."
        if kind == 6:
            return f"p({', '.join(some)}) <- {body}."
        if kind == 7:
            return f"p({', '.join(some)}, count()) <- {body}."
        if kind == 8:
            what = random.choice(["min", "max", "count_distinct"])
            return f"p({what}({some[0]}), count()) <- {body}."
        if kind == 9:
            return f"p(n) <- n = count : {{ {body} }}."
        if kind == 10:
            return f"p() <- {body}. q(x) <- L(x), !({body})."
        if self.type == "int":
            if self.chance(50):
                return f"p(sum({some[0]} % 5)) <- {body}."
            return f"p({' - '.join(some)}, {some[0]}) <- {body}."
        return f"p({some[0]}, n) <- L({some[0]}), n = count : {{ {body} }}."


def drawn_pattern(number: int) -> Pattern:
    drawing = Drawing(number)
    return Pattern(drawing.program(), drawing.data(), number)
