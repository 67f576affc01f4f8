"""Whole Datalog programs as whole processes, beside Soufflé, interpreting and compiled.

Real programs of the data folder, three with facts made up (`made_programs`), and two that only a
clock judges. All sides run in turns; how many rows they give is compared first.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.made_programs import MADE
from benchmarks.records import Ask, Case, Figure, at_most, faster
from benchmarks.setting import Setting
from benchmarks.whole_processes import (
    Counts,
    Ended,
    ours,
    souffle_compiled,
    souffle_interpreted,
)
from tests.data import FOLDER, unpack

ROUNDS = 3
OURS, COMPILED, INTERPRETED = "ours", "Soufflé compiled", "Soufflé interpreted"
PEERS = "peers/souffle.tar.xz"
NOTE = (
    "whole processes, reading and writing included, the best of all rounds; cold: with an empty "
    "code cache, and of compiled Soufflé with its C++ compilation, as it was measured once"
)
ALONE = (
    "a process without its reading and writing: of ours `--timing` tells them; of Soufflé its "
    "interpreter's profile, for the compiled program too, which reads by the same code"
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """How many times as fast as Soufflé, compiled and interpreted; None: not asked for."""

    whole: tuple[float | None, float | None] = (None, None)
    alone: tuple[float | None, float | None] = (None, None)
    cold: tuple[float | None, float | None] = (None, None)
    memory: float | None = None  # of the peers' least, at most


@dataclass(frozen=True, slots=True)
class Work:
    """A program, its facts and what it gives.

    `theirs`: how Soufflé's interpreter is called; `compiled`: the name of the compiled program,
    `compilation` the seconds that this took. `seconds`: what a round takes, about.
    """

    name: str
    program: Path
    facts: Path
    counts: Counts
    wanted: Wanted
    theirs: Sequence[str | Path] = ()
    compiled: str | None = None
    compilation: float | None = None
    seconds: float = 20.0


@dataclass(frozen=True, slots=True)
class Real:
    """A program of the data folder: its folder, our text, and where the archive has facts."""

    name: str
    folder: str
    ours: str
    facts: str
    counts: Counts
    wanted: Wanted
    compiled: str
    theirs: tuple[str, ...] = ()  # if it is not the same text
    compilation: float | None = None
    seconds: float = 20.0

    def work(self, unpacked: Path) -> Work:
        """Unpacks the facts."""
        assert FOLDER is not None
        programs, into = FOLDER / "programs" / self.folder, unpacked / self.folder
        if not into.exists():
            unpack(f"programs/{self.folder}/facts.tar.xz", into)
        *flags, text = self.theirs or (self.ours,)
        return Work(
            self.name, programs / self.ours, into / self.facts, self.counts, self.wanted,
            (*flags, programs / text), self.compiled, self.compilation, self.seconds,
        )  # fmt: skip


REAL = (
    Real(
        "doop", "doop", "doop-flat.dl", ".",
        {
            "VarPointsTo": 511_397, "InstanceFieldPointsTo": 354_511, "Assign": 31_754,
            "CallGraphEdge": 13_136, "ArrayIndexPointsTo": 5_636, "Reachable": 2_875,
            "StaticFieldPointsTo": 705,
        },
        Wanted(whole=(2, 3), alone=(5, 10), cold=(8, 1.5), memory=1.5),
        "doop", ("--legacy", "doop.dl"), 40.4, 90,
    ),
    Real(
        "cspa10k", "cspa", "cspa.dl", "cspa10k",
        {"value_flow": 30_152, "value_alias": 384_485, "memory_alias": 112_761},
        Wanted(), "cspa", (), 13.3, 8,
    ),
    Real(
        "cspa100k", "cspa", "cspa.dl", "cspa100k",
        {"value_flow": 303_801, "value_alias": 5_003_241, "memory_alias": 1_515_902},
        Wanted(alone=(5, 8)), "cspa", (), 13.3, 20,
    ),
    Real(
        "galen-el", "galen-el", "galen.dl", ".",
        {"sub": 1_091_144, "ex": 309_713, "mainSub": 455_126},
        Wanted(alone=(5, 8)), "galen", seconds=35,
    ),
    Real(
        "crdt", "crdt", "crdt.dl", ".",
        {
            "nextSiblingAnc": 181_836, "currentValue": 104_852, "valueStep": 104_851,
            "blankStep": 77_464, "value_blank_star": 182_314, "result": 104_851,
        },
        Wanted(whole=(10, 20)), "crdt", seconds=60,
    ),
)  # fmt: skip

# Of programs that nobody has tuned for: 8 times, as of cspa and galen-el, and 1.5 times less.
MADE_WANTED = Wanted(alone=(None, 5.3))

COUNTING = "n(0).\nn(i+1) <- n(i), i < {size}.\n.printsize n\n"
TAKEUCHI = """\
// Takeuchi's function, of what is asked for only: all from -{size} to {size}, and what these need.
asked(x, y, z) <- x = range(-{size}, {size}+1), y = range(-{size}, {size}+1),
                  z = range(-{size}, {size}+1).
asked(x-1, y, z), asked(y-1, z, x), asked(z-1, x, y) <- asked(x, y, z), x > y.
asked(a, b, c) <- asked(x, y, z), x > y, tak(x-1, y, z, a), tak(y-1, z, x, b), tak(z-1, x, y, c).
tak(x, y, z, z) <- asked(x, y, z), x <= y.
tak(x, y, z, r) <- asked(x, y, z), x > y, tak(x-1, y, z, a), tak(y-1, z, x, b), tak(z-1, x, y, c),
                   tak(a, b, c, r).
.printsize tak
"""
# Programs that only a clock judges: their sizes, small and as asked, rows, and seconds.
CLOCKED = (
    ("counting", COUNTING, (1_000, 1_000_000), {"n": (1_001, 1_000_001)}, 2.0),
    ("Takeuchi's function", TAKEUCHI, (2, 8), {"tak": (149, 5_201)}, 3.0),
)


def run(setting: Setting) -> Iterator[Case]:
    if sys.platform == "win32":  # no wait4
        return
    with TemporaryDirectory(prefix="gdatalog-programs-", dir=setting.folder) as given:
        folder = Path(given)
        souffle, why = _souffle(folder)
        for real in () if setting.small else REAL:
            if not setting.wants(real.name, ROUNDS * real.seconds):
                continue
            if FOLDER is None or not (FOLDER / "programs" / real.folder).is_dir():
                yield Case("programs", real.name, [], notes=("skipped: not in the data folder",))
                continue
            yield from _beside(setting, real.work(folder), souffle, why)
        for made in MADE:
            if setting.wants(made.name, ROUNDS * 20):
                facts = folder / made.name.replace(" ", "_")
                program = made.write(facts, 20 if setting.small else made.size)
                work = Work(made.name, program, facts, {}, MADE_WANTED, (program,))
                yield from _beside(setting, work, souffle, why)
        for name, text, sizes, rows, limit in CLOCKED:
            if setting.wants(name, ROUNDS * 10):
                program = folder / "clocked.dl"
                program.write_text(text.format(size=sizes[not setting.small]))
                counts = {relation: each[not setting.small] for relation, each in rows.items()}
                work = Work(name, program, folder, counts, Wanted())
                whole, _ = _beside(setting, work, None, "")
                if (taken := whole.figures[0].warm) is not None:
                    whole.asks = [at_most(f"{name}, code cached", "a clock", taken, limit)]
                yield whole


def _souffle(folder: Path) -> tuple[Path | None, str]:
    """Where Soufflé is unpacked; else why there is none."""
    if FOLDER is None or not (FOLDER / PEERS).exists():
        return None, f"without Soufflé: the data folder has no {PEERS}"
    unpack(PEERS, folder)
    return folder / "souffle", ""


def _beside(setting: Setting, work: Work, souffle: Path | None, why: str) -> Iterator[Case]:
    """Whole processes, and what is left of them without reading and writing."""
    cold: list[Ended] = []
    ended: dict[str, list[Ended]] = {OURS: []}
    if souffle is not None and work.theirs:
        ended |= {COMPILED: [], INTERPRETED: []} if work.compiled else {INTERPRETED: []}
    for turn in range(1 if setting.small else ROUNDS):
        with TemporaryDirectory(prefix="code-", dir=setting.folder) as cache:
            if turn == 0 or not cold[0].trouble:
                cold.append(ours(work.program, work.facts, cache))
                ended[OURS].append(ours(work.program, work.facts, cache))
        for side, seen in ended.items():
            if souffle is None or side == OURS or (seen and seen[0].trouble):
                continue
            if side == COMPILED:
                seen.append(souffle_compiled(souffle / str(work.compiled), work.facts))
            else:
                profile = None if turn else souffle / "profile.json"
                program = souffle / "souffle"
                seen.append(souffle_interpreted(program, work.theirs, work.facts, profile))
    expected = {**ended.get(INTERPRETED, ended[OURS])[0].counts, **work.counts}
    for one in (*cold, *(one for seen in ended.values() for one in seen)):
        wrong = {name: n for name, n in expected.items() if one.counts.get(name) != n}
        if wrong and not one.trouble:
            one.trouble = f"WRONG: {dict(one.counts)}, not {wrong}"
    compiling = {OURS: 0.0, COMPILED: work.compilation, INTERPRETED: 0.0}
    yield _whole(work, ended, _best(cold), compiling, (NOTE, why) if why else (NOTE,))
    yield _alone(work, ended)


def _whole(
    work: Work,
    ended: Mapping[str, Sequence[Ended]],
    cold: Ended,
    compiling: Mapping[str, float | None],
    notes: tuple[str, ...],
) -> Case:
    figures = []
    for side, seen in ended.items():
        best, spent = _best(seen), compiling[side]
        figure = Figure(side, peak=max(one.peak for one in seen), runs=len(seen))
        figure.trouble = next((one.trouble for one in (*seen, cold) if one.trouble), "")
        if side != OURS:
            figure.trouble = best.trouble
        if not best.trouble:
            figure.warm = best.seconds
            figure.cold = None if spent is None else best.seconds + spent
            figure.answer = f"{sum(best.counts.values()):,} rows"
        if side == OURS:
            figure.cold = None if cold.trouble else cold.seconds
        figures.append(figure)
    case = Case("programs", work.name, figures, notes=notes)
    for at, peer in enumerate((COMPILED, INTERPRETED)):
        if (ratio := work.wanted.whole[at]) is not None:
            case.asks.append(faster(case, OURS, [peer], ratio))
        if (ratio := work.wanted.cold[at]) is not None:
            case.asks.append(faster(case, OURS, [peer], ratio, cold=True))
    peers = [figure for figure in figures[1:] if figure.peak and not figure.trouble]
    if work.wanted.memory is not None and peers and figures[0].peak:
        least = min(peers, key=lambda figure: figure.peak or 0)
        times = figures[0].peak / (least.peak or 1)
        wanted = f"at most {work.wanted.memory:g}x its memory"
        seen_ = f"{times:.3g}x ({figures[0].peak / 1e6:,.0f} MB)"
        met = times <= work.wanted.memory and not figures[0].trouble
        case.asks.append(Ask(work.name, least.side, wanted, seen_, met))
    return case


def _alone(work: Work, ended: Mapping[str, Sequence[Ended]]) -> Case:
    case = Case("programs", f"{work.name}, evaluation alone", [], notes=(ALONE,))
    of_souffle = next(
        (one.files for one in ended.get(INTERPRETED, ()) if one.files is not None), None
    )
    for side, seen in ended.items():
        figure = Figure(side, runs=len(seen), trouble=_best(seen).trouble)
        files = [one.files if side == OURS else of_souffle for one in seen]
        known = [
            one.seconds - took for one, took in zip(seen, files, strict=True) if took is not None
        ]
        if known and not figure.trouble:
            figure.warm = min(known)
        case.figures.append(figure)
    for at, peer in enumerate((COMPILED, INTERPRETED)):
        if (ratio := work.wanted.alone[at]) is not None:
            case.asks.append(faster(case, OURS, [peer], ratio))
    return case


def _best(seen: Sequence[Ended]) -> Ended:
    """The quickest; what went wrong, if something did."""
    return min(seen, key=lambda one: (not one.trouble, one.seconds))
