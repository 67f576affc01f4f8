"""Computes what courses.dl must write, in plain Python: `python make_expected.py [folder]`."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
Rows = list[tuple[object, ...]]


def read(name: str) -> list[list[str]]:
    text = (HERE / "facts" / f"{name}.facts").read_text(encoding="utf-8")
    return [line.split("\t") for line in text.splitlines()]


COURSES = {code: (title, int(points)) for code, title, points in read("course")}
NEEDS = {code: [p for c, p in read("requires") if c == code] for code in COURSES}
STUDENTS = [student for student, _ in read("student")]
GRADES = {(student, code): int(grade) for student, code, grade in read("passed")}
DONE = {key for key, grade in GRADES.items() if grade >= 50}


def terms(code: str) -> int:
    return 1 + max(map(terms, NEEDS[code]), default=0)


def may_take() -> Rows:
    return [
        (student, code)
        for student in STUDENTS
        for code in COURSES
        if (student, code) not in DONE and all((student, p) in DONE for p in NEEDS[code])
    ]


def standing() -> Rows:
    rows: Rows = []
    for student in STUDENTS:
        grades = [grade for (s, _), grade in GRADES.items() if s == student]
        done = [code for code in COURSES if (student, code) in DONE]
        if grades:
            points = sum(COURSES[code][1] for code in done)
            rows.append((student, len(done), points, max(grades)))
    return rows


def best_grade() -> Rows:
    best: dict[str, int] = {}
    for (_, code), grade in GRADES.items():
        best[code] = max(grade, best.get(code, 0))
    return [(code, grade, s) for (s, code), grade in GRADES.items() if grade == best[code]]


def departments() -> Rows:
    return [(code, code[:2], int(code[2])) for code in COURSES if len(code) == 5]


def label() -> Rows:
    rows: Rows = []
    for code, (title, _) in COURSES.items():
        if code.startswith("MA"):
            rows.append((code, f"{code}: {title}"))
        if "omput" in title:
            rows.append((code, f"{code} (computing)"))
    return rows


def longest_road() -> Rows:
    return [(code, terms(code)) for code in COURSES]


def proposition(truth: bool) -> Rows:
    return [("()",)] if truth else []


def make(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for rule in (may_take, standing, best_grade, departments, label, longest_road):
        delimiter = "," if rule is departments else "\t"
        write(folder / f"{rule.__name__}.csv", rule(), delimiter)
    write(folder / "cyclic.csv", proposition(False))  # or `terms` would not have come back
    write(folder / "sound.csv", proposition(True))
    someone = any(row[2] >= 60 for row in standing())  # type: ignore[operator]
    write(folder / "someone_is_done.csv", proposition(someone))


def write(path: Path, rows: Rows, delimiter: str = "\t") -> None:
    lines = sorted(delimiter.join(map(str, row)) + "\n" for row in rows)
    path.write_text("".join(lines), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    make(Path(sys.argv[1]) if sys.argv[1:] else HERE / "expected")
