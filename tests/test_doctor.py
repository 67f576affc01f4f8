"""gd.doctor(): what it finds, and what it says where something is missing."""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path

import gdatalog as gd
from gdatalog.distribution import install
from gdatalog.gpu_ops.probe import Card, Probe
from gdatalog.shell import cli, doctor


def without_seconds(text):
    return re.sub(r"answered in .* s", "answered", text)


def test_it_tells_versions_and_that_a_query_is_answered():
    found = gd.doctor().to_dict()
    assert found["gdatalog"] == gd.__version__
    assert found["numpy"] == importlib.metadata.version("numpy")
    assert found["query"].startswith("works")
    assert found["compiled query"].startswith("works")
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
    assert "no-such-package  not installed" in str(found)
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


def seen(monkeypatch, probe):
    """What is said of a machine, after its memory limit."""
    monkeypatch.setattr("gdatalog.gpu_ops.probe.look", lambda number=0: probe)
    found = {finding.name: finding for finding in gd.doctor().findings}
    return {name: f for name, f in found.items() if name not in ("query", "compiled query")}


def test_without_a_gpu(monkeypatch):
    found = seen(monkeypatch, Probe(packages=(("cupy-cuda12x", "14.2.0"),)))
    assert found["GPU"] == doctor.Finding("GPU", "there is no NVIDIA GPU")
    assert found["CuPy"] == doctor.Finding("CuPy", "cupy-cuda12x 14.2.0")
    assert found["device"].found == "cpu (there is no NVIDIA GPU)"
    assert "GPU query" not in found


def test_a_gpu_without_cupy(monkeypatch):
    card = Card("NVIDIA H200", 143_771 << 20, (9, 0))
    probe = Probe(None, True, True, None, "570.1", (12, 8), (card,), broken="ImportError: cupy")
    found = seen(monkeypatch, probe)
    assert found["GPU driver"].found == "570.1, supports CUDA up to 12.8"
    assert found["GPU"].found == "cuda:0 NVIDIA H200, 140.4 GiB, compute capability 9.0"
    assert found["CuPy"].cure == install("cuda12")
    assert "GPU query" not in found
    assert cli.run(["--doctor"]) == 1


def test_queries_are_run_on_a_gpu_that_is_well(monkeypatch):
    asked, answer = [], gd.query

    def query(text, data, *, strategy, device):
        asked.append((strategy, device))
        return answer(text, data, strategy=strategy)

    monkeypatch.setattr("gdatalog.opening.query", query)
    card = Card("NVIDIA H200", 143_771 << 20, (9, 0))
    packages = (("cupy-cuda13x", "14.2.0"),)
    probe = Probe(None, True, True, None, None, (13, 0), (card,), packages, None, 13, (13, 0))
    found = seen(monkeypatch, probe)
    assert found["GPU compiler"].found == "NVRTC 13.0"
    assert found["a kernel"].found == "compiled and run"
    assert re.fullmatch(r"works, in \d+\.\d s", found["GPU query"].found)
    assert re.fullmatch(r"works, in \d+\.\d s", found["compiled GPU query"].found)
    assert asked == [
        ("levelwise", "cuda"), ("lftj", "cuda"), ("levelwise", "cpu"), ("lftj", "cpu")
    ]  # fmt: skip


def test_several_gpus_are_tried_together(monkeypatch):
    opened, answer, database = [], gd.query, gd.connect

    def query(text, data, *, strategy, device):
        return answer(text, data, strategy=strategy)

    def connect(device):
        opened.append(device)
        return database(device="cpu")

    monkeypatch.setattr("gdatalog.opening.query", query)
    monkeypatch.setattr("gdatalog.opening.connect", connect)
    card = Card("NVIDIA H200", 143_771 << 20, (9, 0))
    packages = (("cupy-cuda13x", "14.2.0"),)
    for cards in ((card,), (card, card)):
        probe = Probe(None, True, True, None, None, (13, 0), cards, packages, None, 13, (13, 0))
        found = seen(monkeypatch, probe)
        assert ("query on 2 GPUs" in found) == (len(cards) > 1)
    assert re.fullmatch(r"works, in \d+\.\d s", found["query on 2 GPUs"].found)
    assert opened == ["cuda:all"]


def test_an_installation_that_is_broken(monkeypatch):
    def fails(*args, **kwargs):
        raise ImportError("half an installation")

    monkeypatch.setattr("gdatalog.opening.query", fails)
    found = {finding.name: finding for finding in gd.doctor().findings}["query"]
    assert found.found == "fails: ImportError: half an installation"
    assert found.cure == f"{install()}; if that does not help, report this"


def test_a_compiler_that_does_not_work(monkeypatch):
    def fails(*args):
        raise RuntimeError("LLVM says no")

    monkeypatch.setattr("gdatalog.codegen.native._native", {})
    monkeypatch.setattr("gdatalog.codegen.native._kept", lambda name: None)
    monkeypatch.setattr("gdatalog.codegen.machine.object_of", fails)
    found = {finding.name: finding for finding in gd.doctor().findings}
    assert found["query"].found.startswith("works")
    told = found["compiled query"].found
    assert re.match(r"fails: RuntimeWarning: .*: LLVM says no \(its LLVM IR is in .*\)$", told)
    Path(told.rpartition(" in ")[2].rstrip(")")).unlink()
    assert found["compiled query"].cure == f"{install()}; if that does not help, report this"
