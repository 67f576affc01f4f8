"""Kernels that other threads compile, as late as a test wants."""

from __future__ import annotations

from threading import Event
from typing import Any

import pytest

from gdatalog.gpu_ops.walk import Walks


def compiled_later(monkeypatch: pytest.MonkeyPatch) -> Event:
    """Threads compile no kernel of loops until the event is set."""
    going, compiled = Event(), Walks._compiled_there

    def later(*given: Any) -> Any:
        going.wait(60)
        return compiled(*given)

    monkeypatch.setattr(Walks, "_compiled_there", later)
    return going
