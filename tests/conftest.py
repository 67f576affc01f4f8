"""What holds for all tests: which of them run on a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests import on_gpu


def pytest_configure(config: pytest.Config) -> None:
    on_gpu.configure(config)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if on_gpu.leave_out(config, collection_path) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    on_gpu.mark(config, items)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    for line in on_gpu.table(config, terminalreporter.stats):
        terminalreporter.write_line(line)
