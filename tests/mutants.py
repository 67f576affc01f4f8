"""Seeded edits of the planner and the engine: which of them change an answer, and who notices.

    python -m tests.mutants 200                 # so many edits, over planner/ and engine/
    python -m tests.mutants 40 --file planner/rewrite/passing.py --seed 3

Each edit is made in a copy of the package. Programs drawn as those of the oracle's tests are, and
asked in several ways, tell whether it changes an answer; if it does, the quick tests of planner
and engine should fail. The score counts edits that change an answer, and how many are noticed.
"""

from __future__ import annotations

import argparse
import ast
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).parents[1]
PATIENCE = 300  # seconds, after which an edit has made programs or tests endless
FOLDERS = ("planner", "engine")
# Tests that ask planner and engine for answers and plans; slow and drawn ones are left out.
TESTS = """
engine_oracle plans order symmetry magic_sets partitioned maintenance recursion lattice
dead_variables counted encoding checks_safety checks_strata checks_types checks_names delta hashing
rounds semi_joins prepared executor wide
"""
SWAPS: dict[type[ast.AST], str] = {
    ast.Eq: "!=", ast.NotEq: "==", ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">",
    ast.In: "not in", ast.NotIn: "in", ast.Is: "is not", ast.IsNot: "is",
    ast.Add: "-", ast.Sub: "+",
}  # fmt: skip


@dataclass(frozen=True)
class Edit:
    """In a file, `old` at a place of it becomes `new`."""

    file: str
    line: int
    start: int
    end: int
    new: str
    old: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: `{self.old}` -> `{self.new}`"

    def apply(self, source: str) -> str:
        return source[: self.start] + self.new + source[self.end :]


def edits_of(path: Path) -> Iterator[Edit]:
    """All edits of a file, in the order of the text."""
    source = path.read_text(encoding="utf-8")
    starts = [0]
    for text in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(text))
    name = path.relative_to(ROOT / "gdatalog").as_posix()

    def edit(first: ast.expr, last: ast.expr, new: str) -> Edit:
        assert last.end_lineno is not None and last.end_col_offset is not None
        start = starts[first.lineno - 1] + _chars(source, starts, first.lineno, first.col_offset)
        end = starts[last.end_lineno - 1] + _chars(
            source, starts, last.end_lineno, last.end_col_offset
        )
        return Edit(name, first.lineno, start, end, new, source[start:end])

    def text(node: ast.expr) -> str:
        return ast.get_source_segment(source, node) or ""

    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in SWAPS:
                yield edit(left, right, f"{text(left)} {SWAPS[type(op)]} {text(right)}")
            case ast.BoolOp(op=op, values=values):
                word = " or " if isinstance(op, ast.And) else " and "
                yield edit(values[0], values[-1], word.join(f"({text(v)})" for v in values))
                for at in range(len(values)):
                    left_over = [text(v) for i, v in enumerate(values) if i != at]
                    joined = (" and " if isinstance(op, ast.And) else " or ").join(left_over)
                    yield edit(values[0], values[-1], f"({joined})")
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield edit(node, node, f"bool({text(operand)})")
            case ast.If(test=test) | ast.IfExp(test=test):
                yield edit(test, test, "True")
                yield edit(test, test, "False")
            case ast.BinOp(op=op, left=left, right=right) if type(op) in SWAPS:
                yield edit(left, right, f"{text(left)} {SWAPS[type(op)]} {text(right)}")
            case ast.Constant(value=bool(value)):
                yield edit(node, node, str(not value))


def _chars(source: str, starts: list[int], line: int, column: int) -> int:
    """A column in bytes as one in characters."""
    text = source[starts[line - 1] : starts[line]]
    return len(text.encode()[:column].decode())


# ------------------------------------------------------------------------------- the answers


def known_answers(path: Path, count: int) -> None:
    """Draws programs and stores what the oracle says of each; None where it fails."""
    from gdatalog.parser import parse
    from tests.draw import PROFILES, drawn
    from tests.draw_recursion import drawn_recursion
    from tests.oracle import TooLong, evaluate
    from tests.oracle_values import Failure, canonical

    found: list[tuple[Any, ...]] = []
    profiles = list(PROFILES.values())
    for number in range(count):
        if number % 4 == 3:
            program = drawn_recursion(number)
        else:
            program = drawn(number, profiles[number % len(profiles)])
        try:
            parse(program.text)
            rows = evaluate(program.program, program.rows, program.types)
            expected = {name: canonical(rows[name]) for name in program.defined}
        except (Failure, TooLong):
            continue
        except Exception:
            continue
        found.append((program.text, program.data, program.defined, expected))
    path.write_bytes(pickle.dumps(found))


def first_difference(path: Path) -> str | None:
    """The first program whose answer is another one than the oracle's, in one of several ways."""
    import warnings

    import gdatalog
    from tests.oracle_values import canonical
    from tests.test_engine_oracle import REFUSALS, answers, frame, plain

    warnings.simplefilter("ignore")
    ways: list[dict[str, Any]] = [
        {"strategy": "levelwise"},
        {"strategy": "levelwise", "dead_variables": "always", "dedup": "hash"},
        {"strategy": "levelwise", "split": "never", "dedup": "sort"},
        {"strategy": "levelwise", "encode": "always", "dedup": "bitmap"},
    ]
    for number, (text, data, defined, expected) in enumerate(pickle.loads(path.read_bytes())):
        try:
            with gdatalog.connect(device="cpu") as db:
                db.workspace.force(**ways[number % len(ways)])
                db.workspace.chunk_rows = (None, 3)[number % 2]
                if number % 3:
                    found = answers(db, text, data, defined)
                else:  # every second row comes when all has been evaluated
                    answers(db, text, {n: (t, rows[::2]) for n, (t, rows) in data.items()}, defined)
                    for name, (types, rows) in data.items():
                        db.insert(name, frame(types, rows[1::2]))
                    found = {
                        name: {tuple(map(plain, row)) for row in db.relations[name]}
                        for name in defined
                    }
        except REFUSALS as error:
            return f"{number}: refused: {error}"
        except Exception as error:
            return f"{number}: {type(error).__name__}: {error}"
        for name in sorted(defined):
            if canonical(found[name]) != expected[name]:
                return f"{number}: {name} is another one in\n{text}"
    return None


# ----------------------------------------------------------------------------------- running


def main() -> None:
    options = _options()
    if options.compare:
        told = first_difference(options.compare)
        print(told or "")
        sys.exit(1 if told else 0)
    paths = [path for of in FOLDERS for path in sorted((ROOT / "gdatalog" / of).glob("*.py"))]
    if options.file:
        paths = [ROOT / "gdatalog" / options.file]
    edits = [edit for path in paths for edit in edits_of(path)]
    chosen = Random(options.seed).sample(edits, min(options.edits, len(edits)))
    counts: dict[str, Counter[str]] = {}
    with tempfile.TemporaryDirectory(prefix="gdatalog-mutants-") as folder:
        answers = Path(folder) / "answers"
        known_answers(answers, options.programs)

        nothing = Edit("__init__.py", 1, 0, 0, "", "")
        verdict, why = _judged(nothing, Path(folder) / "copy", answers)
        if verdict != "no answer changes":
            sys.exit(f"the package as it is gives other answers: {why}")

        def judged(number: int) -> None:
            edit = chosen[number]
            verdict, why = _judged(edit, Path(folder) / f"copy{number}", answers)
            counts.setdefault(edit.file, Counter())[verdict] += 1
            if verdict != "no answer changes" or options.all:
                print(f"{verdict:20} {edit}   {why.splitlines()[0] if why else ''}", flush=True)

        with ThreadPoolExecutor(options.jobs) as pool:
            list(pool.map(judged, range(len(chosen))))
    total = sum(counts.values(), Counter[str]())
    changing = total["noticed"] + total["UNNOTICED"]
    print(f"{len(chosen)} edits: {dict(total)}")
    print(f"of {changing} that change an answer {total['noticed']} are noticed")
    for file, told in sorted(counts.items(), key=lambda item: -item[1]["UNNOTICED"])[:5]:
        print(f"  {file}: {dict(told)}")


def _judged(edit: Edit, copy: Path, answers: Path) -> tuple[str, str]:
    """What comes of an edit that is made in a copy, and how the first answer differs."""
    try:
        return _compared(edit, copy, answers)
    finally:
        shutil.rmtree(copy)


def _compared(edit: Edit, copy: Path, answers: Path) -> tuple[str, str]:
    shutil.copytree(ROOT / "gdatalog", copy / "gdatalog")
    shutil.copy(ROOT / "pyproject.toml", copy)
    for name in ("tests", "queries", "docs"):
        (copy / name).symlink_to(ROOT / name)
    path = copy / "gdatalog" / edit.file
    path.write_text(edit.apply(path.read_text(encoding="utf-8")), encoding="utf-8")
    places = (str(copy), str(copy / "tests"), os.environ.get("PYTHONPATH", ""))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, places))}

    def run(*arguments: str) -> subprocess.CompletedProcess[str] | None:
        try:
            return subprocess.run(
                [sys.executable, *arguments],
                cwd=copy,
                env=environment,
                capture_output=True,
                text=True,
                timeout=PATIENCE,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return None

    compared = run("-m", "tests.mutants", "--compare", str(answers))
    if compared is not None and compared.returncode == 0:
        return "no answer changes", ""
    why = "it does not end" if compared is None else compared.stdout or compared.stderr[-300:]
    quick = "not slow and not gpu and not host"
    files = [f"tests/test_{name}.py" for name in TESTS.split()]
    tested = run("-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", quick, *files)
    noticed = tested is None or tested.returncode != 0
    return ("noticed" if noticed else "UNNOTICED"), why


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("edits", type=int, nargs="?", default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--file", default="", help="of one file, as in planner/rewrite/linear_recursion.py"
    )
    parser.add_argument("--programs", type=int, default=400)
    parser.add_argument("--jobs", type=int, default=1, help="edits that are judged at a time")
    parser.add_argument("--all", action="store_true", help="shows edits that change nothing, too")
    parser.add_argument("--compare", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
