"""gd.doctor(): what it finds, and what it says where something is missing."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess

import gdatalog as gd
from gdatalog.shell import cli, doctor


def without_seconds(text):
    return re.sub(r"answered in .* s", "answered", text)


def test_it_tells_versions_and_that_a_query_is_answered():
    found = gd.doctor().to_dict()
    assert found["gdatalog"] == gd.__version__
    assert found["numpy"] == importlib.metadata.version("numpy")
    assert found["a query"].startswith("answered")
    assert found["a compiled one"].startswith("answered")
    assert gd.doctor().well


def test_the_command_line_prints_it(capsys):
    assert cli.run(["--doctor"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert without_seconds(out) == without_seconds(f"{gd.doctor()}\n")
    assert out.startswith("gdatalog      ")


def test_what_is_missing_comes_with_a_cure(monkeypatch):
    monkeypatch.setattr(doctor, "NEEDED", ("numpy", "no-such-package"))
    monkeypatch.setattr(doctor, "OPTIONAL", ("neither-is-this",))
    found = gd.doctor()
    assert not found.well
    assert "no-such-package  not there" in str(found)
    assert "-> python -m pip install no-such-package" in str(found)
    assert "neither-is-this" not in str(found)
    assert cli.run(["--doctor"]) == 1


def test_a_library_that_is_there_but_broken(monkeypatch):
    def fails(name):
        raise ImportError("libarrow.so: cannot open")

    monkeypatch.setattr("importlib.import_module", fails)
    monkeypatch.setattr(doctor, "NEEDED", ("pyarrow",))
    found = {finding.name: finding for finding in gd.doctor().findings}["pyarrow"]
    assert "but it cannot be imported: ImportError: libarrow.so: cannot open" in found.found
    assert found.cure == "python -m pip install --force-reinstall pyarrow"


def _nvidia_smi(monkeypatch, code, text):
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    done = subprocess.CompletedProcess([], code, text, "")
    monkeypatch.setattr("subprocess.run", lambda *args, **kwargs: done)
    return {finding.name: finding for finding in gd.doctor().findings}["GPU"]


def test_a_gpu_and_a_driver_that_fails(monkeypatch):
    card = _nvidia_smi(monkeypatch, 0, "NVIDIA H200, 143771 MiB, 570.1\n")
    assert card.found == "NVIDIA H200, 143771 MiB, driver 570.1"
    assert card.cure is None
    broken = _nvidia_smi(monkeypatch, 9, "couldn't communicate\nwith the driver\n")
    assert broken.found == "nvidia-smi fails: couldn't communicate with the driver"
    assert broken.cure == "look after the driver"


def test_an_installation_that_is_broken(monkeypatch):
    def fails(*args, **kwargs):
        raise ImportError("half an installation")

    monkeypatch.setattr("gdatalog.database.query", fails)
    found = {finding.name: finding for finding in gd.doctor().findings}["a query"]
    assert found.found == "fails: ImportError: half an installation"
    assert found.cure == "reinstall gdatalog, and report this"


def test_a_compiler_that_does_not_work(monkeypatch):
    def fails(*args):
        raise RuntimeError("LLVM says no")

    monkeypatch.setattr("gdatalog.cpu_ops.code_cache.load", fails)
    found = {finding.name: finding for finding in gd.doctor().findings}
    assert found["a query"].found.startswith("answered")
    assert found["a compiled one"].found == "fails: RuntimeError: LLVM says no"
    assert found["a compiled one"].cure == "reinstall gdatalog, and report this"
