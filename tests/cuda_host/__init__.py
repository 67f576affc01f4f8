"""Runs CUDA kernels on a machine with no GPU: `HostDriver`. README.md tells how."""

import pytest

from tests.cuda_host.compiler import available
from tests.cuda_host.driver import HostDriver, HostFault

__all__ = ["HostDriver", "HostFault", "needs_compiler"]

needs_compiler = pytest.mark.skipif(not available(), reason="there is no g++")
