"""docs/functions.md is made of the functions that there are, and its examples have their values."""

from __future__ import annotations

from gdatalog.plan.function_help import HELP, OF_HEADS
from gdatalog.plan.functions import AGGREGATES, FUNCTIONS, ORDERED
from tests.functions_page import PAGE, page


def test_every_function_has_an_entry() -> None:
    found = [entry.name for entry in HELP if entry.section not in OF_HEADS]
    assert sorted(found) == sorted(FUNCTIONS)
    found = [entry.name for entry in HELP if entry.section in OF_HEADS]
    assert sorted(found) == sorted((*AGGREGATES, *ORDERED))


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()
