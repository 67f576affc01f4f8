"""`python -m tests.replay`: collects what programs make, and says what has changed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

from tests.replay.programs import ROOT, programs
from tests.replay.running import collect
from tests.replay.stored import NAME, compare, load, store, without


def main(arguments: Sequence[str]) -> int:
    asked = _parsed(arguments)
    against = asked.against
    if against is None and asked.store is None:
        against = _began_from()
    if against is None:
        _collected(asked)
        return 0
    if (Path(against) / NAME).is_file():
        before, after = load(Path(against)), _collected(asked)
    else:
        with TemporaryDirectory() as folder, _collecting_at(against, Path(folder), asked) as other:
            after = _collected(asked)
            if other.wait() != 0:
                sys.exit(f"the programs could not be replayed at {against}")
            before = load(Path(folder))
    if asked.ignore is not None:
        before, after = (without(asked.ignore, texts) for texts in (before, after))
    found = compare(before, after)
    print(f"against {against}:")
    print("\n".join(found.report(asked.show)))
    return 1 if found.differs else 0


def _parsed(arguments: Sequence[str]) -> Namespace:
    parser = ArgumentParser(prog="python -m tests.replay", description=__doc__)
    parser.add_argument("--store", type=Path, metavar="FOLDER", help="keep the texts there")
    parser.add_argument(
        "--against",
        metavar="FOLDER|COMMIT",
        help="what to compare with: what --store made, or git's",
    )
    parser.add_argument(
        "--only",
        nargs="+",
        default=[],
        metavar="WORD",
        help="programs whose names hold one of these",
    )
    parser.add_argument(
        "--show", type=int, default=3, metavar="N", help="differences of each kind to show (3)"
    )
    parser.add_argument(
        "--ignore", type=re.compile, metavar="PATTERN", help="leave out lines that hold it"
    )
    return parser.parse_args(arguments)


def _collected(asked: Namespace) -> dict[str, str]:
    began = process_time()
    wanted = list(programs(asked.only))
    texts = collect(wanted, kernels=not asked.only)
    seconds = process_time() - began
    print(f"{len(texts):,} texts of {len(wanted):,} programs, in {seconds:.0f} s of CPU")
    if asked.store is not None:
        store(texts, asked.store)
    return texts


@contextmanager
def _collecting_at(
    commit: str, folder: Path, asked: Namespace
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that collects the texts of a commit, by the `tests.replay` that it has."""
    found = _git("rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}")
    if not found:
        sys.exit(f"{commit} is neither a folder with {NAME} nor a commit")
    if not _git("ls-tree", found, "tests/replay/"):
        sys.exit(f"{commit} has no tests/replay: it is from before there was one")
    with TemporaryDirectory() as place:
        tree = Path(place, "tree")
        _git("worktree", "add", "--detach", "--quiet", str(tree), found)
        only = ["--only", *asked.only] if asked.only else []
        other = subprocess.Popen(
            [sys.executable, "-m", "tests.replay", "--store", str(folder), *only],
            cwd=tree,
            env={**os.environ, "PYTHONPATH": str(tree)},
            stdout=subprocess.DEVNULL,
        )
        try:
            yield other
        finally:
            other.kill()
            other.wait()
            _git("worktree", "remove", "--force", str(tree))


def _began_from() -> str:
    """The commit that this work began from: HEAD, if the tree has changes; else where its branch
    left main; on main itself the commit before."""
    if _git("status", "--porcelain"):
        return "HEAD"
    for main_branch in ("main", "origin/main"):
        base = _git("merge-base", main_branch, "HEAD")
        if base:
            return base if base != _git("rev-parse", "HEAD") else "HEAD~1"
    sys.exit("there is no branch main here: say --against COMMIT")


def _git(*arguments: str) -> str:
    """What git says; nothing where it refuses."""
    done = subprocess.run(
        ["git", "-C", str(ROOT), *arguments], capture_output=True, encoding="utf-8", check=False
    )
    return done.stdout.strip() if done.returncode == 0 else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
