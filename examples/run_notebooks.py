"""Runs the notebooks of this folder and stores what they show: after a change to one of them.

    python examples/run_notebooks.py [NAME.ipynb ...]

tests/test_notebooks.py runs them in the same way, and compares.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nbformat
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
NOTEBOOKS = sorted(HERE.glob("*.ipynb"))


class ThisPython(AsyncKernelManager):
    """Kernels of the Python that runs this, whatever kernels are installed."""

    @property
    def kernel_spec(self) -> KernelSpec:
        argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        argv += ["--log-level=ERROR"]
        return KernelSpec(argv=argv, display_name="Python 3", language="python")


def run(notebook: Any) -> Any:
    """Runs all cells in a kernel of their own, and puts what they show in place of what is stored.

    An error in a cell is raised.
    """
    with TemporaryDirectory() as folder:
        manager = ThisPython(connection_file=os.path.join(folder, "kernel.json"))
        client = NotebookClient(notebook, km=manager, timeout=300, record_timing=False)
        client.execute(cwd=str(HERE), env=_environment(folder))
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.metadata.pop("execution", None)
            cell.outputs = [output for output in cell.outputs if not _is_empty(output)]
    return notebook


def _environment(folder: str) -> dict[str, str]:
    """What is next to us is imported, not what may be installed; nobody's settings count."""
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "IPYTHONDIR": folder,
        "MPLCONFIGDIR": folder,
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    }


def _is_empty(output: Any) -> bool:
    """Whether it is where a progress bar was."""
    return not any(output.get("data", {"": "something"}).values())


def main() -> None:
    for path in [Path(name).resolve() for name in sys.argv[1:]] or NOTEBOOKS:
        notebook = nbformat.read(path, as_version=4)
        nbformat.write(run(notebook), path)
        print(f"{path.name}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
