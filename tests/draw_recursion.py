"""A strategy that draws recursive programs: every shape a fixpoint may have, with data to match.

A program has one recursive cycle of one to three relations, sometimes of min or max, and rules
that read it. Graphs are chains, cycles, trees, stars, cliques and random ones, over values that
are dense, sparse, negative, near the ends of 64 bits, or symbols; so rounds are few or many, and
rows can be packed or cannot. As in `draw`, a program follows from its number.

    recursions()          all shapes
    recursions("free")    one of SHAPES, or of the programs PLAIN and OPTIMA
    queries_of(drawn)     questions with constants, for what evaluates only what is asked for
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from hypothesis import strategies as st

from gdatalog.parser import parse
from tests.draw import Drawn
from tests.oracle_values import Value

SHAPES = ("plain", "free", "optimum")
DOMAINS: dict[str, Callable[[int], list[Value]]] = {
    "dense": lambda size: list(range(size)),
    "sparse": lambda size: [1_000_003 * (at * at + 1) for at in range(size)],
    "negative": lambda size: [3 * at - size for at in range(size)],
    "extreme": lambda size: [(-1) ** at * (2**63 - 1 - at) for at in range(size)],
    "symbol": lambda size: [f"v{at}" for at in range(size)],
}

# The plainest programs of each kind: rules for r, of E, F (pairs), G (triples) and N (one column).
PLAIN = {
    "right": "r(x, y) <- E(x, y). r(x, z) <- r(x, y), E(y, z).",
    "left": "r(x, y) <- E(x, y). r(x, z) <- E(x, y), r(y, z).",
    "both": "r(x, y) <- E(x, y). r(x, z) <- r(x, y), E(y, z). r(x, z) <- F(x, y), r(y, z).",
    "non-linear": "r(x, y) <- E(x, y). r(x, z) <- r(x, y), r(y, z).",
    "non-linear, filtered": "r(x, y) <- E(x, y). r(x, z) <- r(x, y), r(y, z), x != z.",
    "same generation": "r(x, y) <- E(a, x), E(a, y), x != y. r(x, y) <- E(a, x), r(a, b), E(b, y).",
    "reach": "r(x) <- N(x). r(y) <- r(x), E(x, y).",
    "two rules": "r(x, y) <- E(x, y). r(x, z) <- r(x, y), E(y, z). r(x, z) <- r(x, y), F(y, z).",
    "triples": "r(x, y, y) <- E(x, y). r(x, y, w) <- r(x, y, z), E(z, w).",
    "labels": "r(x, l, y) <- G(x, l, y). r(x, l, z) <- r(x, l, y), G(y, l, z).",
    "first edge": "r(x, y, y) <- E(x, y). r(x, z, w) <- r(x, z, y), E(y, w), !N(w).",
    "turned": "r(x, y) <- E(x, y). r(y, x) <- r(x, y). r(x, z) <- r(x, y), E(y, z).",
    "mutual": "r(x, y) <- E(x, y). r(x, z) <- s(x, y), E(y, z). s(x, z) <- r(x, y), F(y, z).",
    "mutual, kept": "r(x, y) <- E(x, y). r(x, y) <- s(x, y). s(x, z) <- r(x, y), E(y, z), N(z).",
    "three": "r(x) <- N(x). s(y) <- r(x), E(x, y). t(y) <- s(x), F(x, y). r(y) <- t(x), E(x, y).",
    "of arity 1 and 2": "r(x, y) <- E(x, y), s(x). s(x) <- N(x). s(y) <- r(x, y).",
    "diagonal": "r(x, y) <- E(x, y). r(x, x) <- r(x, y), r(y, x). r(x, z) <- r(x, x), F(x, z).",
    "thrice": "r(x, y) <- E(x, y). r(x, w) <- r(x, y), r(y, z), r(z, w).",
    "points-to": "r(x, y) <- E(x, y). r(x, z) <- F(x, y), r(y, z). "
    "r(y, w) <- G(x, _, z), r(x, y), r(z, w).",
    "without end in sight": "r(x, y) <- F(x, y). r(x, y) <- r(y, x). r(x, z) <- r(x, y), r(z, y).",
}

# With W(x, y, w), and weights that are not negative.
OPTIMA = {
    "one source": "r({c}, 0). r(y, min(d + w)) <- r(x, d), W(x, y, w).",
    "all pairs": "r(x, y, min(w)) <- W(x, y, w). r(x, z, min(d + w)) <- r(x, y, d), W(y, z, w).",
    "widest": "r(x, y, max(w)) <- W(x, y, w). r(x, z, max(min(d, w))) <- r(x, y, d), W(y, z, w).",
    "bottleneck": "r({c}, 0). r(y, min(max(d, w))) <- r(x, d), W(x, y, w).",
    "components": "r(x, min(x)) <- E(x, _). r(y, min(y)) <- E(_, y). "
    "r(y, min(c)) <- r(x, c), E(x, y). r(x, min(c)) <- r(y, c), E(x, y).",
    "near": "r({c}, 0). r(y, min(d + w)) <- r(x, d), W(x, y, w), d < 5.",
    "steps": "r(x, min(0)) <- N(x). r(y, min(d + 1)) <- r(x, d), E(x, y).",
    "through": "r(x, y, min(w)) <- W(x, y, w). s(x, y) <- r(x, y, d), d <= 3. "
    "r(x, z, min(d + w)) <- r(x, y, d), W(y, z, w), s(x, y).",
}


class _Recursion:
    """A recursive program in the making."""

    def __init__(self, random: Random, shape: str) -> None:
        """`shape`: of SHAPES, or one of the names of PLAIN and OPTIMA."""
        self.random = random
        self.name = shape
        self.shape = "plain" if shape in PLAIN else "optimum" if shape in OPTIMA else shape
        self.domain = random.choice([*DOMAINS, "dense", "dense"])
        self.values = DOMAINS[self.domain](random.randint(3, 9))
        self.kind = "symbol" if self.domain == "symbol" else "int"
        self.data: dict[str, tuple[tuple[str, ...], list[tuple[Value, ...]]]] = {}
        self.rules: list[str] = []
        self.names = 0

    def chance(self, percent: int) -> bool:
        return self.random.randrange(100) < percent

    def text(self, value: Value) -> str:
        return f'"{value}"' if isinstance(value, str) else str(value)

    def constant(self) -> str:
        return self.text(self.random.choice(self.values))

    # --------------------------------------------------------------------------------- data

    def load(self) -> None:
        pairs = self.graph()
        self.relation("E", 2, pairs)
        self.relation("F", 2, self.graph())
        self.relation("N", 1, [(value,) for value in self.values if self.chance(40)])
        labels = self.values[: self.random.randint(1, 3)]
        self.relation("G", 3, [(x, self.random.choice(labels), y) for x, y in self.graph()])
        weighted = [(x, y, self.random.randint(0, 6)) for x, y in pairs]
        self.data["W"] = (self.kind, self.kind, "int"), sorted(set(weighted))

    def relation(self, name: str, arity: int, rows: Sequence[tuple[Value, ...]]) -> None:
        self.data[name] = (self.kind,) * arity, sorted(set(rows))

    def graph(self) -> list[tuple[Value, Value]]:
        values = self.random.sample(self.values, len(self.values))
        at = range(len(values))
        kind = self.random.choice(["chain", "cycle", "tree", "star", "clique", "any", "any", ""])
        places = {
            "chain": [(i, i + 1) for i in at[:-1]],
            "cycle": [(i, (i + 1) % len(at)) for i in at],
            "tree": [((i - 1) // 2, i) for i in at[1:]],
            "star": [(0, i) for i in at] + [(i, 1) for i in at if self.chance(50)],
            "clique": [(i, j) for i in at[:4] for j in at[:4]],
            "any": [
                (self.random.choice(at), self.random.choice(at)) for _ in range(2 * len(values))
            ],
            "": [],
        }[kind]
        return [(values[i], values[j]) for i, j in places]

    # -------------------------------------------------------------------------------- rules

    def make(self) -> None:
        self.load()
        if self.shape == "free":
            self.free()
        else:
            texts = OPTIMA if self.shape == "optimum" else PLAIN
            text = texts[self.name if self.name in texts else self.random.choice(list(texts))]
            self.rules.append(text.replace("{c}", self.constant()))
        heads = self.arities()
        if self.shape != "optimum":
            self.seeds(heads)
        self.readers(heads)

    def arities(self) -> dict[str, int]:
        program = parse(" ".join(self.rules))
        return {
            head.name: len(head.args) for rule in program.statements for head in _heads_of(rule)
        }

    def free(self) -> None:
        """Any rules: up to three recursive relations that read each other."""
        count = self.random.choice([1, 1, 1, 2, 3])
        arities = {name: self.random.choice([1, 2, 2, 2, 3]) for name in ("r", "s", "t")[:count]}
        names = list(arities)
        for name in names:
            for _ in range(self.random.randint(1, 2)):
                self.rule(name, arities, [])
        for at, name in enumerate(names):
            for _ in range(self.random.randint(1, 2)):
                cycle = [names[(at + 1) % count]]
                cycle += [self.random.choice(names) for _ in range(2) if self.chance(25)]
                self.rule(name, arities, cycle)

    def rule(self, name: str, arities: dict[str, int], recursive: Sequence[str]) -> None:
        """A rule whose head often passes on columns of its recursive atom at their places."""
        atoms: list[tuple[str, list[str]]] = []
        seen: list[str] = []
        for atom in recursive:
            atoms.append((atom, self.arguments(arities[atom], seen)))
        for _ in range(self.random.randint(0 if recursive else 1, 2)):
            atom = self.random.choice(["E", "E", "F", "G", "N"])
            atoms.append((atom, self.arguments({"G": 3, "N": 1}.get(atom, 2), seen)))
        head = []
        kept = atoms[0][1] if recursive else []
        for at in range(arities[name]):
            if at < len(kept) and kept[at] in seen and self.chance(60):
                head.append(kept[at])
            elif seen and not self.chance(4):
                head.append(self.random.choice(seen))
            else:
                head.append(self.constant())
        parts = [f"{atom}({', '.join(args)})" for atom, args in atoms]
        parts += [self.test(seen) for _ in range(2) if seen and self.chance(20)]
        self.random.shuffle(parts)
        self.rules.append(f"{name}({', '.join(head)}) <- {', '.join(parts)}.")

    def arguments(self, count: int, seen: list[str]) -> list[str]:
        args = []
        for _ in range(count):
            if self.chance(6):
                args.append(self.constant())
            elif self.chance(5):
                args.append("_")
            elif seen and self.chance(45):
                args.append(self.random.choice(seen))
            else:
                self.names += 1
                args.append(f"x{self.names}")
        seen += [arg for arg in args if arg[0] == "x" and arg not in seen]
        return args

    def test(self, seen: Sequence[str]) -> str:
        x, y = self.random.choice(seen), self.random.choice(seen)
        c = self.constant()
        return self.random.choice(
            [f"{x} != {c}", f"{x} < {y}", f"{x} != {y}", f"{x} <= {c}", f"!N({x})",
             f"!F({x}, {y})", f"!E({x}, _)", f"{x} in {{{c}, {self.constant()}}}"]
        )  # fmt: skip

    def seeds(self, heads: dict[str, int]) -> None:
        """Facts, and data of a recursive relation itself."""
        for name, arity in heads.items():
            if self.chance(15):
                args = ", ".join(self.constant() for _ in range(arity))
                self.rules.append(f"{name}({args}).")
            if self.chance(10):
                rows = [
                    tuple(self.random.choice(self.values) for _ in range(arity)) for _ in range(3)
                ]
                self.relation(name, arity, rows)

    def readers(self, heads: dict[str, int]) -> None:
        """Rules above the cycle: counted, tested, met, negated, asked for one value."""
        for name, arity in heads.items():
            args = [f"a{at}" for at in range(arity)]
            atom = f"{name}({', '.join(args)})"
            anything = f"{name}({', '.join('_' * arity)})"
            one = f"{name}({', '.join([self.constant(), *args[1:]])})"
            kinds = [
                "",
                f"many_{name}(count()) <- {anything}.",
                f"some_{name}() <- {anything}.",
                f"per_{name}({args[-1]}, count()) <- {atom}.",
                f"met_{name}({args[0]}) <- {atom}, E(_, {args[-1]}).",
                f"not_{name}(x) <- N(x), !{name}({', '.join(['x', *'_' * (arity - 1)])}).",
                f"of_{name}({', '.join(args)}) <- {one}, {args[0]} = {args[-1]}."
                if arity > 1
                else "",
                f"from_{name}({', '.join(args[1:]) or '1'}) <- {one}.",
            ]
            if self.shape == "optimum" and self.kind == "symbol":
                del kinds[4:7]  # the last column is a number
            self.rules.append(self.random.choice(kinds))


def _heads_of(statement: Any) -> Sequence[Any]:
    return getattr(statement, "heads", ())


def drawn_recursion(seed: int, shape: str | None = None) -> Drawn:
    """The program of a number."""
    random = Random(seed)
    making = _Recursion(random, shape or random.choice(SHAPES))
    making.make()
    program = parse("\n".join(filter(None, making.rules)))
    used = {
        name: rows for name, rows in making.data.items() if f"{name}(" in " ".join(making.rules)
    }
    return Drawn(program, used, seed)


def queries_of(drawn: Drawn, most: int = 3) -> list[tuple[str, tuple[Value | None, ...]]]:
    """Questions: a relation, and for each of its columns a constant or None for any value.

    The constants are of the data, or of its kind; a relation of arity 0 is not asked for.
    """
    random = Random(drawn.seed)
    values = sorted(
        {v for types, rows in drawn.data.values() for row in rows for v in row}, key=str
    )
    arities = {
        head.name: len(head.args)
        for statement in drawn.program.statements
        for head in _heads_of(statement)
    }
    asked = []
    for name, arity in random.sample(sorted(arities.items()), min(most, len(arities))):
        if arity and values:
            bound = random.sample(range(arity), random.randint(1, arity))
            asked.append(
                (name, tuple(random.choice(values) if at in bound else None for at in range(arity)))
            )
    return asked


def recursions(shape: str | None = None) -> st.SearchStrategy[Drawn]:
    return st.integers(0, 2**64 - 1).map(lambda seed: drawn_recursion(seed, shape))
