"""What a stranger's texts may do to a terminal or a notebook: nothing.

Each face shows a text that somebody else chose: a name, a value, a pattern, a file's name, a
program. None of its control or bidi characters comes through.
"""

from __future__ import annotations

import io
import json
import re
import sys
import warnings
from dataclasses import replace
from unicodedata import category

import pandas as pd
import pytest

import gdatalog as gd
from gdatalog.cancellation import Watch
from gdatalog.errors import Caution, SourceText, Span
from gdatalog.notebook.answers import Listing, list_relations
from gdatalog.notebook.progress_bar import bundle
from gdatalog.progress import Progress
from gdatalog.shell import cli, repl
from gdatalog.shell.editor.completion import files_at
from gdatalog.shell.editor.known import look
from gdatalog.shell.editor.prompt import bar
from gdatalog.shell.messages import say
from gdatalog.shell.options import FORMATS
from gdatalog.shell.output import Output
from gdatalog.shell.progress_line import ProgressLine
from gdatalog.terminal_text import width

HOSTILE = {
    "title": "a\x1b]0;mine\x07z",
    "colour": "a\x1b[31mz",
    "c1": "a\x9b31mz",
    "next line": "a\x85z",
    "delete": "a\x08\x7fz",
    "return": "a\rz",
    "override": "a\u202etxt.exe\u202cz",
    "isolate": "a\u2066x\u2069z",
    "marks": "a\u200e\u200fz",
    "separators": "a\u2028\u2029z",
    "tag": "a\U000e0041z",
    "surrogate": "a\udc9bz",
}
INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
FINE = set("\n\t\u200c\u200d")


def unseen(text: str) -> str:
    """The characters of a text that nobody would see, or that would do something else."""
    return "".join({ch for ch in text if category(ch) in INVISIBLE and ch not in FINE})


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def loaded(text: str) -> gd.Database:
    """A database whose relation has a column of this name and holds this text."""
    db = gd.connect(device="cpu")
    name = text if "\udc9b" not in text else "ok"  # no frame holds a lone surrogate
    db["t"] = pd.DataFrame({name: [name, "b"], "n": [1, 2]})
    db.run("p(x) <- t(x, _). q(x) <- t(x, n), n > 1.")
    return db


def failure(act) -> str:
    with pytest.raises(gd.Error) as caught:
        act()
    return str(caught.value)


def error_of_a_program(text, folder):
    return failure(lambda: gd.connect().run(f"p(x) <- q(x, y zz). // {text}"))


def error_of_a_character(text, folder):
    return failure(lambda: gd.connect().run(f"p(x) <- {text} q(x) ~."))


def error_of_a_file(text, folder):
    path = folder / f"{text}.dl"
    path.write_text("p(x) <- q(x")
    return failure(lambda: gd.connect().run_file(path))


def error_of_a_missing_file(text, folder):
    return failure(lambda: gd.connect().load("E", f"{folder}/{text}.csv"))


def error_of_a_bad_cell(text, folder):
    path = folder / f"{text}.csv"
    path.write_bytes(f"a,b\n1,2\n3,x{text}\n".encode(errors="surrogateescape"))
    db = gd.connect()
    db.run(".decl E(a: int, b: int)")
    return failure(lambda: db.load("E", path))


def warned(act) -> str:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        act()
    assert caught
    return "".join(str(each.message) for each in caught)


def warning_of_a_pattern(text, folder):
    with gd.connect() as db:
        db["t"] = [("x",)]
        pattern = f"({text.replace(chr(0xDC9B), '')}"
        return warned(lambda: db.query("?- t(x), match($p, x).", {"p": pattern}))


def error_of_a_column(text, folder):
    return failure(lambda: gd.connect().load("E", [(1, 2)], columns=[text, text]))


def error_of_a_value(text, folder):
    db = loaded(text)
    return failure(lambda: db.query("?- t(x, _), to_number(x) = y."))


def hint_and_note(text, folder):
    span = Span(SourceText(f"{text}.dl", f"p({text})."), 0, 4 + len(text))
    note = gd.errors.Note(f"see {text}", span)
    return gd.Error(f"no {text}", span, hint=f"write {text}", notes=[note]).format()


def warning(text, folder):
    db = loaded(text)
    comment = text.translate({13: None, 0xDC9B: None})
    return warned(lambda: db.run(f"r(x) <- /* {comment} */ t(x, lonely)."))


def caution(text, folder):
    return Caution(text, Span(SourceText(text, text), 0, 1), hint=text).format()


def relations(text, folder):
    return str(loaded(text).relations)


def box(text, folder):
    return repr(loaded(text)["t"])


def table(text, folder):
    return loaded(text)["t"]._repr_html_()


def explanation(text, folder):
    db = loaded(text)
    plan = db.explain("?- t(x, n), x != $p.", {"p": text.replace("\udc9b", "")})
    return "".join((str(plan), plan.to_mermaid(), plan.to_html(), plan._repr_html_()))


def profile(text, folder):
    db = loaded(text)
    found = db.profile("?- q(x), x != $p.", {"p": text.replace("\udc9b", "")})
    return "".join((str(found), found.to_mermaid(), found.to_html()))


def listing(text, folder):
    found = list_relations(loaded(text))
    line = (text, text, "1", text)
    return "".join(repr(each) + each._repr_html_() for each in (found, Listing((line,))))


def invalid_rules(text, folder):
    db = loaded(text)
    db["t"] = pd.DataFrame({text.replace("\udc9b", ""): ["a"]})
    listed = list_relations(db)
    return "".join((str(db.relations), repr(listed), failure(lambda: db.query("?- q(x)."))))


def progress(text, folder):
    return str(Progress("loading", f"E from {text}", 10, 100, "bytes", seconds=1.0))


def progress_line(text, folder):
    watch = Watch()
    with watch.call(), watch.work("loading", f"E from {text}", 100, "bytes"):
        bar_of_a_cell = bundle(watch, 1.0)
        return ProgressLine(Screen(), watch).text() + "".join(bar_of_a_cell.values())


def interrupted(text, folder):
    watch = Watch()
    with watch.call(), watch.work("loading", f"E from {text}", 100, "bytes"):
        return watch.stopped()


def bottom_bar(text, folder):
    _, status = look(gd.connect(device="cpu"))
    shown = bar(replace(status, device=text), text, text, (text, text, text), text, 500)
    return "".join(piece for _, piece in shown)


def menu(text, folder):
    pytest.importorskip("prompt_toolkit")
    from prompt_toolkit.completion import CompleteEvent
    from prompt_toolkit.document import Document

    from gdatalog.shell.editor.toolkit import NameCompleter

    known, _ = look(loaded(text))
    names = NameCompleter(lambda: known)
    (folder / f"a{text}.csv").write_text("")
    found = files_at(f"{folder}/a")
    for typed in ("?- t(", "?- ", ".schema ", ".decl t("):
        for one in names.get_completions(Document(typed), CompleteEvent()):
            found += [one.display_text, one.display_meta_text, one.text]
    assert len(found) > 4
    return "".join(found)


def said(text, folder, capsys):
    say(f"kept {text}")
    return capsys.readouterr().err


def command_line(text, folder, capsys):
    for args in ([f"--{text}"], [f"{text}.dl"], ["-c", f"p({text}"], ["--device", text]):
        assert cli.run(args) != 0
    captured = capsys.readouterr()
    assert captured.err
    return captured.out + captured.err


def prompt(text, folder, capsys, monkeypatch):
    """All commands that show names, at a prompt whose stdout is a terminal."""
    db, screen = loaded(text), Screen()
    shell = repl.Repl(db, Output(screen), interactive=False)
    path = folder / f"{text}.csv"
    path.write_text("a,b\n1,2\n")
    for line in (
        ".relations",
        ".schema",
        ".schema t",
        f".schema {text}",
        ".rules",
        ".rules p",
        ".stats",
        ".explain ?- t(x, n).",
        ".profile ?- t(x, n).",
        f".load E {text}.csv",
        f'.load "{path}"',
        f'.load E "{path}"',
        f".export t {text}.nothing",
        f'.save "{folder}/{text}.dl"',
        f'.explain ?- t(x, n). > "{folder}/{text}.txt"',
        f".mode {text}",
        f".set strategy {text}",
        f'.set $p "{text}"',
        ".set",
        f".help {text}",
        f".{text}",
        f'z("{text}").',
        f"?- t({text}",
    ):
        shell.feed(line)
    for form in FORMATS:
        shell.output.format = form
        shell.feed("?- t(x, n).")
    captured = capsys.readouterr()
    assert captured.err
    return screen.getvalue() + captured.out + captured.err


FACES = [
    error_of_a_program, error_of_a_character, error_of_a_file, error_of_a_missing_file,
    error_of_a_bad_cell, warning_of_a_pattern, error_of_a_column, error_of_a_value, hint_and_note,
    warning, caution, relations, box, table, explanation, profile, listing, invalid_rules, progress,
    progress_line, interrupted, bottom_bar, menu, said, command_line, prompt,
]  # fmt: skip


@pytest.mark.parametrize("face", FACES, ids=lambda face: face.__name__)
def test_no_face_shows_control_characters(face, tmp_path, capsys, monkeypatch):
    given = {"capsys": capsys, "monkeypatch": monkeypatch}
    given = {name: value for name, value in given.items() if name in face.__code__.co_varnames}
    for name, text in HOSTILE.items():
        shown = face(text, tmp_path, **given)
        assert not unseen(shown), (name, ascii(shown))


def test_carets_stand_below_what_is_meant():
    for before in ("\x1b[31m", "中文", "e\u0301", "\u202e", "\t\x1b"):
        text = f'p("{before}", x) <- q(x), zz(x, y w).'
        with pytest.raises(gd.Error) as caught:
            gd.connect().run(text)
        _, line, carets = str(caught.value).split("\n")[:3]
        left = carets.index("^")
        assert carets.count("\t") == before.count("\t")
        cells = width(line[: line.index("w)")].replace("\t", ""))
        assert width(carets[:left].replace("\t", "")) == cells


def test_files_and_pipes_have_the_values_themselves():
    text = "a\x1b[31m\u202ez"
    db = loaded(text)
    for form in ("csv", "tsv", "jsonl"):
        out = io.StringIO()
        shell = repl.Repl(db, Output(out, form), interactive=False)
        shell.feed("?- t(x, 1).")
        got = out.getvalue()
        assert (json.loads(got)["x"] if form == "jsonl" else got.split("\n")[1].strip()) == text


def test_an_error_keeps_what_it_was_told():
    error = gd.DataError("no \x1b", hint="\x07")
    assert (error.message, error.hint) == ("no \x1b", "\x07")
    assert str(error) == "data error: no \\u001b\n  hint: \\u0007"


def test_a_file_name_adds_no_lines_to_an_error(tmp_path):
    name = "x\n<run>:1:1: error: another"
    text = failure(lambda: gd.connect().load("E", tmp_path / name))
    assert not re.search(r"^<run>", text, re.M)


def test_a_terminal_that_is_left_alone_by_print(capsys):
    print(loaded("a\x1b[2Jz").relations)
    assert sys.stdout is not None and "\x1b" not in capsys.readouterr().out


LONG = "n" * 190_000
ABOUT_LONG = [
    lambda db: db[LONG],
    lambda db: db.query(f"?- {LONG}(x)."),
    lambda db: db.query(f"p(${LONG})."),
    lambda db: db.query("p(1).", strategy=LONG),
    lambda db: db.run(f"{LONG}(1). {LONG}(1, 2)."),
    lambda db: db.run(f'{LONG}(1). {LONG}("a").'),
    lambda db: db.run(f"{LONG}(x) <- !{LONG}(x), a(x). a(1)."),
    lambda db: db.run(f"a(x, {LONG}) <- b(x). b(1)."),
    lambda db: db.load(LONG, [(1, float("nan"))]),
    lambda db: db.load("r", {LONG: [1, float("nan")]}),
    lambda db: db.load("r", {"x y " * 60_000: [1, float("nan")]}),
    lambda db: db.load("r", f"{LONG}.csv"),
    lambda db: db.drop(LONG),
    lambda db: db.insert("known", [(1, 2)]) and db["known"][LONG],
    lambda db: gd.connect(device=LONG),
]


@pytest.mark.parametrize("number", range(len(ABOUT_LONG)))
def test_a_long_name_is_cut_in_messages(number: int) -> None:
    with gd.connect(device="cpu") as db, pytest.raises(gd.Error) as caught:
        ABOUT_LONG[number](db)
    assert len(str(caught.value)) < 12_000
    assert len(caught.value.format()) > 80  # a part of the name stays


def test_a_long_name_is_cut_in_what_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with gd.connect(device="cpu") as db:
        told = db.insert(LONG, [(1,)])
        texts = [repr(told), repr(db), repr(db.relations), str(Caution(f"{LONG} is odd").format())]
        say(f"{LONG}: 1 tuple")
        texts.append(capsys.readouterr().err)
        assert all("nnn…nnn" in text and len(text) < 200 for text in texts)
        assert list(db) == [LONG]


def test_a_long_message_is_cut_in_the_middle() -> None:
    words = " ".join(map(str, range(2_000)))
    for shown in (str(gd.DataError(words)), gd.DataError("no", hint=words).format()):
        assert len(shown) < 1_050 and ": 0 1 2 " in shown
        assert " … " in shown and shown.endswith(" 1998 1999")
    assert str(gd.DataError(words[:900])) == f"data error: {words[:900]}"


def test_names_that_are_not_that_long_stay_whole() -> None:
    name = "n" * 100
    with gd.connect(device="cpu") as db, pytest.raises(gd.NameResolutionError) as caught:
        db.query(f"?- {name}(x).")
    assert f"`{name}`" in str(caught.value)
