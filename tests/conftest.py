"""What holds for all tests."""

from __future__ import annotations

import os

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Tests that are not of the GPU say the same where there is one: "auto" is the CPU for them,
    and for the programs that they start."""
    if "not gpu" in (config.option.markexpr or ""):
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
