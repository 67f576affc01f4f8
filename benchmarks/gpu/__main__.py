"""Runs the GPU's benchmarks; prints a short table, and writes the whole report into a folder."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from traceback import format_exc

from benchmarks.gpu import first
from benchmarks.gpu.clocks import Clocked
from benchmarks.gpu.forced import NoGpu, gpu_driver
from benchmarks.gpu.machine import Facts, facts
from benchmarks.gpu.report import markdown, ratios
from benchmarks.gpu.setting import Setting
from benchmarks.records import Case, judged
from gdatalog.errors import Error

# In the order in which they run, and by which share of the time each has to be over.
SUITES = {
    "bandwidth": ("bandwidth", 0.05),
    "cliques": ("cliques", 0.25),
    "sweeps": ("sweeps", 0.33),
    "lftj": ("lftj", 0.41),
    "random": ("random_graphs", 0.53),
    "compiling": ("compiling", 0.55),
    "first": ("first", 0.57),
    "overhead": ("overhead", 0.59),
    "constants": ("constants", 0.6),
    "rounds": ("rounds", 0.65),
    "programs": ("programs", 0.8),
    "recursion": ("recursion", 1.0),
}
OUT = Path(__file__).resolve().parents[2] / "docs" / "benchmarks" / "gpu"
MINUTES = 11.0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("suites", nargs="*", metavar="suite", help=f"{', '.join(SUITES)}; or all")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="begin nothing longer")
    parser.add_argument("--only", default="", help="works whose names have this in them")
    parser.add_argument("--rows", type=int, default=10_000_000, help="facts of large programs")
    parser.add_argument("--out", type=Path, help=f"default: docs/benchmarks/{OUT.name}")
    parser.add_argument("--redraw", action="store_true", help="from the figures in the folder")
    options = parser.parse_args(arguments)
    unknown = set(options.suites) - set(SUITES)
    if unknown:
        parser.error(f"no suite {', '.join(sorted(unknown))}; there are {', '.join(SUITES)}")
    out: Path = options.out or OUT
    if options.redraw:
        seen = json.loads((out / "results.json").read_text(encoding="utf-8"))
        cases = [Case.from_dict(case) for case in seen["cases"]]
        write(cases, seen["machine"], seen["left out"], seen["reasons"], out)
        return 0
    try:
        driver = Clocked(gpu_driver())
    except (NoGpu, ImportError, RuntimeError, Error) as reason:
        print(f"no benchmark on a GPU: {str(reason).strip()}", file=sys.stderr)
        print("cure: gdatalog --doctor tells what is missing here", file=sys.stderr)
        return 0
    given = options.minutes, options.only, options.rows
    setting = Setting(driver, gpu_driver, False, *given)
    cases = run(setting, options.suites or list(SUITES))
    write(cases, facts(driver), setting.left_out, setting.reasons, out)
    told = [
        *ratios(cases),
        *first.told(cases),
        *judged(cases),
        "",
        f"the whole report: {out / 'README.md'}",
    ]
    print("\n".join(["", *told]))
    wrong = [figure for case in cases for figure in case.figures if "WRONG" in figure.trouble]
    return 1 if wrong else 0


def run(setting: Setting, suites: Sequence[str]) -> list[Case]:
    """All cases. A suite that breaks leaves those that it has given, and says why."""
    cases: list[Case] = []
    shares = [SUITES[name][1] for name in suites]
    for name, share in zip(suites, shares, strict=True):
        setting.begin(share / max(shares))
        try:
            for case in _suite(name)(setting):
                cases.append(case)
        except Exception as error:
            print(format_exc(), file=sys.stderr)
            setting.reasons.append(f"{name}: {type(error).__name__}: {str(error).strip()[:300]}")
    setting.forget()
    return cases


def write(
    cases: Sequence[Case],
    told: Facts,
    left_out: Sequence[str],
    reasons: Sequence[str],
    out: Path,
) -> None:
    """The report, the pictures and the figures themselves, into a folder."""
    out.mkdir(parents=True, exist_ok=True)
    pictures: list[tuple[str, str]] = []
    if find_spec("matplotlib") is None:
        reasons = [*reasons, "no pictures: matplotlib is not installed here"]
    else:
        from benchmarks.gpu.pictures import draw

        pictures = draw(cases, out)
    reasons = list(dict.fromkeys(reasons))
    report = markdown(cases, told, left_out, pictures, reasons)
    (out / "README.md").write_text(report, encoding="utf-8")
    data = {
        "machine": told,
        "left out": list(left_out),
        "reasons": reasons,
        "cases": [case.to_dict() for case in cases],
    }
    (out / "results.json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def _suite(name: str) -> Callable[[Setting], Iterator[Case]]:
    found: Callable[[Setting], Iterator[Case]] = import_module(
        f"benchmarks.gpu.{SUITES[name][0]}"
    ).run
    return found


if __name__ == "__main__":
    sys.exit(main())
