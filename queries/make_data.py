"""Makes the data of the programs beside it, the same at every run.

    python queries/make_data.py [folder]

Only what is drawn by chance or taken from a library is made here: the other files under data/
were written by hand. Chance comes from `Random.random` alone, whose sequence for a seed is the
same in all versions of Python.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from random import Random

Row = Sequence[object]

FIRST_NAMES = (
    *("Ada", "Alan", "Barbara", "Claude", "Dana", "Edsger"),
    *("Frances", "Grace", "Hedy", "Ivan", "John", "Katherine"),
)
LAST_NAMES = (
    *("Arden", "Birch", "Croft", "Dale", "Elm", "Ford", "Glen", "Heath"),
    *("Isle", "Jay", "Kerr", "Lowe", "Marsh", "Nash", "Orr"),
)


class Chance(Random):
    """Draws whose results depend on the seed and nothing else."""

    def below(self, n: int) -> int:
        return int(self.random() * n)

    def pick(self, items: Sequence[str]) -> str:
        return items[self.below(len(items))]

    def some(self, items: Sequence[int], n: int) -> list[int]:
        """`n` different ones."""
        left = list(items)
        return [left.pop(self.below(len(left))) for _ in range(n)]


def les_miserables() -> Iterable[Row]:
    """Who appears with whom in Victor Hugo's novel, and in how many chapters.

    Collected by Donald Knuth for The Stanford GraphBase (1993).
    """
    import networkx

    yield "character", "other", "chapters"
    yield from networkx.les_miserables_graph().edges(data="weight")


def coauthors() -> Iterable[Row]:
    """Who wrote a paper with whom: 500 authors in groups that overlap, each pair once."""
    chance = Chance(2)
    pairs: set[tuple[int, int]] = set()
    for _ in range(330):
        home = chance.below(50)
        near = [home * 10 + at for at in range(10)]
        authors = chance.some(near, 2 + chance.below(4))
        if chance.random() < 0.1:
            authors.append(chance.below(500))
        if chance.random() < 0.04:
            authors = chance.some(near, 7)
        pairs |= {(a, b) for a in authors for b in authors if a < b}
    yield "author", "coauthor"
    yield from sorted(pairs)


def streets() -> Iterable[Row]:
    """A town of 24 x 24 crossings. Some streets were never built, some blocks have a shortcut."""
    chance = Chance(3)
    size = 24
    yield "crossing", "next"
    for row in range(size):
        for col in range(size):
            here = 100 * row + col
            if col + 1 < size and chance.random() < 0.9:
                yield here, here + 1
            if row + 1 < size and chance.random() < 0.9:
                yield here, here + 100
            if col + 1 < size and row + 1 < size and chance.random() < 0.15:
                yield here, here + 101


def links() -> Iterable[Row]:
    """The lines between 40 routers, with their capacity in Mbit/s in each direction."""
    chance = Chance(5)
    yield "router", "peer", "mbits"
    for router in range(1, 40):
        for _ in range(2):
            peer = chance.below(router)
            if peer != router:
                capacity = (100, 100, 1000, 1000, 2500, 10000)[chance.below(6)] - chance.below(40)
                yield f"r{router:02}", f"r{peer:02}", capacity


def transfers() -> Iterable[Row]:
    """A spring of payments between 60 accounts, a dozen of which run in a circle."""
    chance = Chance(7)
    start = datetime(2026, 3, 1)
    rows: list[tuple[datetime, str, str, int]] = []

    def pay(when: datetime, payer: int, payee: int, amount: int) -> None:
        rows.append((when, f"acc{payer:02}", f"acc{payee:02}", amount))

    def moment(days: float) -> datetime:
        return start + timedelta(seconds=int(chance.random() * days * 86400))

    for _ in range(900):
        payer, payee = chance.some(range(60), 2)
        pay(moment(90), payer, payee, 10 + chance.below(5000))
    for _ in range(12):
        ring, when, amount = chance.some(range(60), 3), moment(80), 9000 + chance.below(900)
        for payer, payee in zip(ring, ring[1:] + ring[:1], strict=True):
            pay(when, payer, payee, amount)
            when += timedelta(seconds=3600 + chance.below(3 * 86400))
            amount -= amount // 50
    yield "id", "payer", "payee", "amount", "at"
    for number, (sent, payer, payee, amount) in enumerate(sorted(rows), 1):
        yield number, payer, payee, amount, sent.isoformat()


def staff() -> Iterable[Row]:
    """A company of 60: everyone but the first has a manager who was there before."""
    chance = Chance(11)
    teams = ["Engineering", "Sales", "Finance", "Support"]
    people: list[tuple[str, str, str, int]] = []
    yield "name", "manager", "title", "email", "salary"
    while len(people) < 60:
        name = f"{chance.pick(FIRST_NAMES)} {chance.pick(LAST_NAMES)}"
        if any(name == other for other, *_ in people):
            continue
        if not people:
            manager, team, title, depth = "", "", "Chief Executive", 0
        elif len(people) <= len(teams):
            manager, team, depth = people[0][0], teams[len(people) - 1], 1
            title = f"Head of {team}"
        else:
            manager, _, team, depth = people[1 + chance.below(len(people) - 1)]
            depth += 1
            kind = {"Engineering": "Engineer", "Sales": "Account Manager"}.get(team, "Specialist")
            title = f"{'Senior ' if chance.random() < 0.3 else ''}{team} {kind}"
        domain = "example.org" if chance.random() < 0.15 else "example.com"
        email = f"{name.replace(' ', '.').lower()}@{domain}"
        people.append((name, title, team, depth))
        yield name, manager, title, email, 180_000 // (depth + 2) + 500 * chance.below(40)


FILES = {
    "les_miserables.csv": les_miserables,
    "coauthors.csv": coauthors,
    "streets.csv": streets,
    "links.csv": links,
    "transfers.csv": transfers,
    "staff.csv": staff,
}


def make(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in FILES.items():
        with open(folder / name, "w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(rows())


if __name__ == "__main__":
    make(Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parent / "data")
