"""The tables as a page: runs of papers, which replace their predecessors only, and their rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from benchmarks.machine import Facts, named, rough

PAPERS = {
    "wu": "Wu et al. (2014)",
    "cuts": "cuTS (2021)",
    "t_dfs": "T-DFS (2024)",
    "gamma": "GAMMA (2024)",
    "kudu": "Kudu (2021)",
}
RESULTS = "results.json"
NO_TIME = "no time was left"
AHEAD = "compiled ahead"
FAILED = "FAILED"
# Tables of the same works in several ways.
COMPARED = (
    "T-DFS: sharing",
    "T-DFS: stacks",
    "GAMMA: the pool of results",
    "GAMMA: parts of breadth-first",
    "GAMMA: a tenth of the memory",
    "GAMMA: several GPUs",
    "Kudu: workers",
)
_HEAD = """# The tables of papers

The work of Wu et al. (2014), cuTS, T-DFS, GAMMA and Kudu by gdatalog, at the scale that fits one
machine. [Papers](../../internals/papers.md) says which table of a paper each stands for, and what
stands in for what is not here. Times of the papers are of other machines, and are not here.
`python -m benchmarks.papers` repeats it on your machine. Each part says its own command and
machine: processor, cores and GiB of memory.

*cold*: from data in memory to the answer, with planning, compilation and indexes (on a GPU, beside
other processes that compile: `--ahead`); *warm*: the best of the runs after that; *kernels*: how
long kernels of a GPU ran during that, by its own clocks.
*MiB*: by how much memory (a GPU's, where one ran) grew at the most, while it was first asked.
*checked by*: the second way by which the count was found; "enumeration" is the same engine without
sums of simpler counts, "the CPU" its run there. *on*: the machine, where it is not the table's.
"""


@dataclass(slots=True)
class Row:
    """A piece of work. `cold` has planning, compilation and indexes; `grown`: bytes of memory."""

    table: str
    work: str
    answer: Any = None
    checked: str = ""  # how
    cold: float | None = None
    warm: float | None = None
    kernels: float | None = None
    grown: int | None = None
    more: dict[str, str] = field(default_factory=dict)  # columns of this table alone
    trouble: str = ""

    @property
    def key(self) -> tuple[str, str]:
        return self.table, self.work


def stopped(seconds: float) -> str:
    """The trouble of a row that took too long."""
    return f"stopped after {seconds:g} s"


def stopped_after(row: Row) -> float:
    """The seconds after which a row was stopped; 0 if it was not.

    >>> stopped_after(Row("", "", trouble=stopped(2.5))), stopped_after(Row("", ""))
    (2.5, 0.0)
    """
    words = row.trouble.split()
    return float(words[2]) if words[:2] == ["stopped", "after"] else 0.0


@dataclass(frozen=True, slots=True)
class Run:
    """What a command measured of one paper. `kind`: of the device, "cpu" or "cuda"."""

    paper: str
    kind: str
    command: str
    cap: float
    machine: Facts
    rows: Sequence[Row]

    @property
    def key(self) -> tuple[int, str]:
        return list(PAPERS).index(self.paper), self.kind


def read(folder: Path) -> list[Run]:
    """The runs that a folder has."""
    path = folder / RESULTS
    told = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    return [_run(run) for run in told]


def _run(told: dict[str, Any]) -> Run:
    return Run(**{**told, "rows": [Row(**row) for row in told["rows"]]})


def merged(earlier: Sequence[Run], new: Sequence[Run]) -> list[Run]:
    """In the order of the papers; a new run replaces that of the same paper and kind of device."""
    runs = {run.key: run for run in (*earlier, *new)}
    return [runs[key] for key in sorted(runs)]


def added(earlier: Sequence[Run], new: Sequence[Run]) -> list[Run]:
    """The same, but a new run has only some rows: the earlier ones stay beside them, and those that
    were measured in place of new ones that were not. They tell their machine if it is another."""
    runs = {run.key: run for run in earlier}
    for run in new:
        rows = {row.key: row for row in kept(runs.get(run.key), run.machine)}
        for row in run.rows:
            if measured(row) or not measured(rows.get(row.key)):
                rows[row.key] = row
        runs[run.key] = replace(run, rows=list(rows.values()))
    return merged((), [_compared(run, runs) for run in runs.values()])


def kept(run: Run | None, machine: Facts) -> list[Row]:
    """The rows of an earlier run, beside those of this machine: they tell theirs if it is
    another."""
    if run is None:
        return []
    was, now = (f"{facts.get('GPU', facts.get('processor'))}, {facts.get('cores')} cores"
                for facts in (run.machine, machine))  # fmt: skip
    told = {} if was == now else {"on": was}
    return [replace(row, more={**told, **row.more}) for row in run.rows]


def measured(row: Row | None) -> bool:
    """Whether there is an answer, right or wrong.

    >>> measured(Row("", "", 1, trouble="WRONG: 2")), measured(Row("", "", trouble=NO_TIME))
    (True, False)
    """
    return row is not None and (not row.trouble or row.trouble.startswith("WRONG"))


def _compared(run: Run, runs: Mapping[tuple[int, str], Run]) -> Run:
    """A GPU's rows that nothing has checked are compared with those of the CPU, if it has them."""
    key = run.key[0], "cpu"
    if run.kind == "cpu" or key not in runs:
        return run
    known = {row.key: row.answer for row in runs[key].rows if not row.trouble}
    rows = []
    for row in run.rows:
        told = None if row.trouble or row.checked else known.get(row.key)
        if told is not None:
            wrong = "" if told == row.answer else f"WRONG: {told} by the CPU"
            row = replace(row, checked="the CPU", trouble=wrong)
        rows.append(row)
    return replace(run, rows=rows)


def line(run: Run) -> str:
    """A run as a line of JSON."""
    return json.dumps(asdict(run))


def in_lines(text: str) -> list[Run]:
    """The runs whose lines a command printed, among whatever else it printed. A line is cut where
    the command was stopped."""
    found = []
    for told in text.splitlines():
        if told.startswith('{"paper": '):
            with suppress(json.JSONDecodeError):
                found.append(_run(json.loads(told)))
    return found


def write(folder: Path, runs: Sequence[Run]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    told = json.dumps([asdict(run) for run in runs], indent=1)
    (folder / RESULTS).write_text(told + "\n", encoding="utf-8")
    (folder / "README.md").write_text(page(runs), encoding="utf-8")


def page(runs: Sequence[Run]) -> str:
    lines = [_HEAD.rstrip()]
    for run in runs:
        on = run.machine.get("GPU") if run.kind != "cpu" else None
        where = f"{on}, {named(run.machine)}" if on else named(run.machine)
        lines.append(f"\n## {PAPERS[run.paper]}, on {run.kind}\n")
        lines.append(f"`{run.command}`, on {where}.\n")
        lines += [rough(run.machine)] if rough(run.machine) else []
        lines.append(", ".join(f"{key}: {value}" for key, value in run.machine.items()) + ".")
        lines += tables(run.rows)
    return "\n".join(lines) + "\n"


def tables(rows: Sequence[Row]) -> Iterator[str]:
    """A table for each name of one."""
    for table in dict.fromkeys(row.table for row in rows):
        mine = [row for row in rows if row.table == table]
        cells = [_cells(row) for row in mine]
        more = dict.fromkeys(name for row in mine for name in row.more)
        times = ("cold s", "warm ms", "kernels ms", "MiB")
        every = ["work", "answer", "checked by", *more, *times]
        names = [name for name in every if any(one.get(name) for one in cells)]
        yield f"\n### {table}\n"
        yield from _lines(names, cells)
        if table in COMPARED and (means := list(_means(mine))):
            yield "\nGeometric means, of the works that both have:\n"
            yield from _lines(list(means[0]), means)


def _lines(names: Sequence[str], cells: Sequence[Mapping[str, str]]) -> Iterator[str]:
    yield f"| {' | '.join(names)} |"
    yield f"| --- |{' ---: |' * (len(names) - 1)}"
    for one in cells:
        yield f"| {' | '.join(one.get(name, '') for name in names)} |"


def _means(rows: Sequence[Row]) -> Iterator[dict[str, str]]:
    """How many times as long as the first way each other one takes. A row's work ends with its
    way.

    >>> works = ("P1, a way", 2.0), ("P1, other", 8.0), ("P2, a way", 1.0), ("P2, other", 1.0)
    >>> list(_means([Row("", work, warm=seconds) for work, seconds in works]))
    [{'way': 'other', 'warm, by a way': '2.00x', 'kernels, by a way': '', 'works': '2'}]
    """
    ways: dict[str, dict[str, Row]] = {}
    for row in rows:
        work, _, way = row.work.rpartition(", ")
        ways.setdefault(way, {})[work] = row
    first, *others = ways
    for way in others:
        both = [(ways[way][work], row) for work, row in ways[first].items() if work in ways[way]]
        warm = [row.warm / by.warm for row, by in both if row.warm and by.warm]
        kernels = [row.kernels / by.kernels for row, by in both if row.kernels and by.kernels]
        if warm:
            yield {
                "way": way,
                f"warm, by {first}": f"{geometric_mean(warm):.2f}x",
                f"kernels, by {first}": f"{geometric_mean(kernels):.2f}x" if kernels else "",
                "works": str(len(warm)),
            }


def _cells(row: Row) -> dict[str, str]:
    told = f"{row.answer:,}" if isinstance(row.answer, int) else str(row.answer or "")
    return {
        "work": row.work,
        "answer": row.trouble or told,
        "checked by": row.checked,
        **row.more,
        "cold s": "" if row.cold is None else f"{row.cold:.3g}",
        "warm ms": _ms(row.warm),
        "kernels ms": _ms(row.kernels),
        "MiB": "" if row.grown is None else f"{row.grown / 2**20:,.0f}",
    }


def _ms(seconds: float | None) -> str:
    """Three digits.

    >>> _ms(0.00012345), _ms(1.5), _ms(None)
    ('0.123', '1,500', '')
    """
    if seconds is None:
        return ""
    value = 1e3 * seconds
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"
