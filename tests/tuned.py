"""Other thresholds than the engine's own, for databases that a test does not open itself."""

from __future__ import annotations

from typing import Any

import pytest

from gdatalog.workspace import Workspace


def tune(patch: pytest.MonkeyPatch, **thresholds: Any) -> None:
    """Databases have these thresholds until the patch is undone."""
    patch.setattr(Workspace, "settings", Workspace.settings.tuned(**thresholds))
