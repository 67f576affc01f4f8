"""docs/errors.md has every error that a program's text can make (test_docs.py runs its entries)."""

from __future__ import annotations

import re
from functools import cache

import pytest
from doc_blocks import blocks_of
from error_sites import Site, sites
from terminal import ROOT

from gdatalog import errors

PAGE = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
PRINTED = "\n".join(
    block.text for block in blocks_of(PAGE) if block.is_output or block.language == "console"
)

# Messages that the page does not show: where they are made, how they begin, and why.
ELSEWHERE = "the message is handed over by the functions below it, which are in the page"
HUGE = "it takes a program of thousands of lines"
LEFT_OUT = [
    ("parser/failure", None, ELSEWHERE),
    ("parser/tokens", None, ELSEWHERE),
    ("planner/check/column_names", None, ELSEWHERE),
    ("planner/check/names", None, ELSEWHERE),
    ("planner/check/null_places", None, ELSEWHERE),
    ("planner/check/ordered_heads", None, ELSEWHERE),
    ("planner/check/scopes", None, ELSEWHERE),
    ("planner/check/types", "nothing says which type the parameter", "it takes `db.prepare`"),
    ("parser/includes", "files are included more than", HUGE),
    ("parser/scanner", "this is nested more than", HUGE),
    ("planner/check/walk", "this body has more than", HUGE),
    ("planner/components", "more than", HUGE),
    ("planner/check/lattice", "more than", HUGE),
    ("parser/reading", "this is half of a character", "a page cannot hold half a character"),
    ("parser/mistakes", "the statement is not complete", "what none of the tables knows"),
    ("engine/depth", "a count does not fit", "it takes 2 to the 63 matches"),
    (
        "engine/facts/files",
        "this database may .+? files in",
        "names the folder of the page's own run",
    ),
    ("engine/facts/outputs", ".+?: cannot write to IO=", "as `cannot read from IO=` of the page"),
    ("engine/catalog/parameters", r"the parameter \$.+? is a table", "it is a parameter of Python"),
    ("engine/execution", r"the parameter `\$.+?` is not", "as those of `.set`"),
    ("engine/catalog/parameters", r"the parameter \$.+? is NaT", "as NaN of the page"),
    ("engine/catalog/parameters", r"the parameter \$.+? is no time", "as the times of the page"),
    ("executors/gather", "the sum of inf and -inf", "as `not a number` of the page"),
    ("engine/operators/ordered", "the sum of inf and -inf", "as `not a number` of the page"),
]


@cache
def looked_up(*folders: str) -> list[tuple[Site, bool]]:
    """The places of some folders, and whether the page shows what they say."""
    return [(site, site.is_in(PRINTED)) for site in sites(*folders)]


def reason(site: Site) -> str | None:
    for module, start, why in LEFT_OUT:
        if site.module == module and (
            site.pattern is None if start is None else (site.pattern or "").startswith(start)
        ):
            return why
    return None


def test_what_programs_can_make_is_in_the_page() -> None:
    found = looked_up("parser", "planner", "engine", "executors")
    assert len(found) > 150
    missing = [str(site) for site, shown in found if not shown and reason(site) is None]
    assert not missing


def test_what_is_left_out_is_there() -> None:
    found = looked_up("parser", "planner", "engine", "executors")
    for module, start, _ in LEFT_OUT:
        of_module = [(site.pattern, shown) for site, shown in found if site.module == module]
        own = [
            shown
            for pattern, shown in of_module
            if (pattern is None if start is None else (pattern or "").startswith(start))
        ]
        assert own and not any(own), (module, start)


def test_files_and_data_are_mostly_in_the_page() -> None:
    found = [shown for site, shown in looked_up("storage") if site.pattern is not None]
    assert sum(found) > len(found) / 2


@pytest.mark.parametrize(
    "kind",
    sorted(
        (kind for kind in vars(errors).values() if isinstance(kind, type)),
        key=lambda kind: kind.__name__,
    ),
)
def test_every_kind_is_in_the_page(kind: type) -> None:
    if not issubclass(kind, errors.Error) or kind is errors.Error:
        return
    assert f"| `{kind.__name__}` |" in PAGE
    assert kind is errors.Interrupted or f"{kind.kind}: " in PAGE


def test_anchors_are_said_and_differ() -> None:
    headings = re.findall(r"^###+ .*$", PAGE, re.MULTILINE)
    anchors = [found[1] for line in headings if (found := re.search(r"\{#([\w-]+)\}$", line))]
    assert len(anchors) == len(headings) == len(set(anchors)) > 40
