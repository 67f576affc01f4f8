"""ARCHITECTURE.md and the rules of the house, as far as a program can check them."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from operator import le
from pathlib import Path

import pytest

import gdatalog as gd
from gdatalog import cpu_ops
from gdatalog.engine.device import (
    CPU,
    HOST,
    Accelerator,
    AcceleratorGroup,
    Cpu,
    Device,
    Host,
    group_of,
)
from gdatalog.gpu_ops.device import Gpu
from gdatalog.gpu_ops.group import DeviceGroup
from gdatalog.gpu_ops.sums import Sums
from gdatalog.settings import Thresholds
from tests import code_size, layers, way_of_a_query
from tests.code_size import cycles, doubled
from tests.module_list import PAGE, first_words, page

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "gdatalog"
TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")

FILES = sorted(PACKAGE.rglob("*.py"))
package = cache(code_size.package)

LAYERS = {path.relative_to(PACKAGE).with_suffix("").parts[0] for path in FILES}

PROTOCOLS = (Device, Accelerator, AcceleratorGroup)
HEAVY = {
    "pandas",
    "pyarrow",
    "polars",
    "llvmlite",
    "numba",
    "cupy",
    "lark",
    "scipy",
    "networkx",
    "IPython",
    "prompt_toolkit",
    "dask",
    "distributed",
}
# The modules that may import llvmlite and Lark; nothing may import these modules at once.
COMPILER = "gdatalog.codegen.machine"
OBJECTS = "gdatalog.codegen.object_files"  # imports the compiler, and is as late
GRAMMAR = "gdatalog.parser.grammar"
# What may import prompt_toolkit at once; nothing outside of it may import these at once.
EDITOR = {
    "gdatalog.shell.editor.prompt",
    "gdatalog.shell.editor.toolkit",
}


@cache
def trees() -> dict[Path, ast.Module]:
    return {module.path: module.tree for module in package().values()}


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def module_of(path: Path) -> str:
    return "gdatalog." + name_of(path).removesuffix(".py").replace("/", ".")


def imported(node: ast.AST) -> list[str]:
    """The modules that an import statement names."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        assert node.level == 0 and node.module is not None, "imports are absolute here"
        if node.module == "gdatalog":
            return [f"gdatalog.{alias.name}" for alias in node.names]
        return [node.module]
    return []


def statements(body: list[ast.stmt], *, in_functions: bool) -> Iterator[ast.stmt]:
    """The statements that may run; what is imported for type checkers alone does not."""
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not in_functions:
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield from statements(node.orelse, in_functions=in_functions)
            continue
        yield node
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            for inner in getattr(node, field, []):
                nested = [inner] if isinstance(inner, ast.stmt) else inner.body
                yield from statements(nested, in_functions=in_functions)


def modules_imported(body: list[ast.stmt], *, in_functions: bool) -> list[str]:
    nodes = statements(body, in_functions=in_functions)
    return [module for node in nodes for module in imported(node)]


# --------------------------------------------------------------------------------- imports


def test_every_layer_has_a_rule() -> None:
    assert set(layers.MAY_IMPORT) == LAYERS
    assert layers.FOR_TYPES.keys() <= LAYERS


def test_every_package_has_an_order() -> None:
    packages = layers.packages(package())
    for path, parts in packages.items():
        order = layers.ORDER.get(path, "").split()
        assert len(order) == len(set(order)) and (order or len(parts) < layers.LISTED), path
        assert not order or set(order) == parts, (path, set(order) ^ parts)
    assert layers.ORDER.keys() <= packages.keys()


def test_imports_run_downwards() -> None:
    """Within packages too, and for type checkers; what a program runs keeps to `MAY_IMPORT`."""
    assert not [*layers.upwards(package())]
    for path, tree in trees().items():
        layer = layers.parts_of(module_of(path))
        modules = modules_imported(tree.body, in_functions=True)
        run = {layers.parts_of(module) for module in modules if module.startswith("gdatalog.")}
        assert run & LAYERS - {layer} <= layers.MAY_IMPORT[layer], path


def test_what_points_upwards_is_still_there() -> None:
    for name, other in layers.UPWARDS:
        module = package()[f"gdatalog.{name}"]
        found = {each.removeprefix("gdatalog.") for each in module.imports(package())}
        assert other in found, (name, other)


def test_an_import_upwards_is_found() -> None:
    assert layers.allowed("gdatalog.engine.context", "gdatalog.engine.device")
    assert not layers.allowed("gdatalog.engine.device", "gdatalog.engine.context")
    assert not layers.allowed(
        "gdatalog.engine.fixpoint.delta", "gdatalog.engine.evaluator.evaluator"
    )
    assert not layers.allowed("gdatalog.engine.fixpoint.runs", "gdatalog.engine.fixpoint.delta")
    assert not layers.allowed("gdatalog.storage.table", "gdatalog.engine.device")


def test_what_the_way_of_a_query_counts() -> None:
    counted, rows = way_of_a_query.way(way_of_a_query.QUERIES["triangle"])
    assert rows == way_of_a_query.FOUND["triangle"]
    assert {
        "gdatalog.parser.reading",
        "gdatalog.planner.rule",
        "gdatalog.engine.rules.rows",
    } <= counted.files
    assert len(counted.files) < len(counted.functions) < counted.calls > counted.modules
    assert counted.modules > counted.packages > counted.upwards.total() and counted.depth > 10
    assert not any(layers.allowed(*pair) for pair, number in counted.upwards.items() if number)


# What a tiny query may pass, the first time: calls, changes of package, calls upwards, frames.
LONGEST_WAY = {
    "triangle": (2_500, 475, 0, 30),
    "closure": (3_910, 1_025, 0, 31),
    "negation": (2_920, 550, 0, 30),
}


def test_the_way_of_a_query_is_not_longer_than_it_was() -> None:
    command = [sys.executable, "-m", "tests.way_of_a_query"]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for line in told.splitlines()[1:]:
        name, *figures = line.replace(",", "").split()
        _, _, calls, _, packages, upwards, frames = map(int, figures)
        found = calls, packages, upwards, frames
        assert all(map(le, found, LONGEST_WAY[name])), (name, found)


def test_the_rules_have_no_cycle() -> None:
    assert not layers.cycle()


def test_the_table_of_layers_is_up_to_date() -> None:
    assert layers.page(TEXT) == TEXT, "python -m tests.layers --write"


def test_modules_import_each_other_in_no_cycle_and_classes_are_named_once() -> None:
    modules = package()
    assert not cycles(modules) and not doubled(modules)


def test_nothing_heavy_is_imported_at_once() -> None:
    for path in FILES:
        modules = modules_imported(trees()[path].body, in_functions=False)
        module = module_of(path)
        editor = module in EDITOR
        late = {COMPILER: "llvmlite", GRAMMAR: "lark"}
        allowed = "prompt_toolkit" if editor else late.get(module)
        assert {module.split(".")[0] for module in modules}.isdisjoint(HEAVY - {allowed}), path
        assert module == OBJECTS or {COMPILER, OBJECTS, GRAMMAR}.isdisjoint(modules), path
        assert editor or EDITOR.isdisjoint(modules), path


def test_one_module_knows_llvm_and_none_numba() -> None:
    for path in FILES:
        modules = modules_imported(trees()[path].body, in_functions=True)
        names = {module.split(".")[0] for module in modules}
        assert "numba" not in names, path
        assert "llvmlite" not in names or name_of(path) == "codegen/machine.py", path


def test_the_translator_knows_nothing_of_datalog() -> None:
    for path in FILES:
        if name_of(path).startswith("codegen/"):
            modules = modules_imported(trees()[path].body, in_functions=True)
            assert not any(each.startswith("gdatalog.storage") for each in modules), path


def _only_for_types(body: list[ast.stmt]) -> set[str]:
    guarded = [n for n in body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING"]
    nodes = [node for guard in guarded for node in guard.body]
    imports = [node for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom))]
    return {alias.asname or alias.name for node in imports for alias in node.names}


def _runs(node: ast.AST) -> Iterator[ast.AST]:
    """What is below a node, but for annotations and what is for type checkers alone."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
                continue
            if isinstance(child, ast.AST):
                yield child
                yield from _runs(child)


def test_what_is_imported_for_types_alone_is_not_used() -> None:
    """A name that a function uses must be imported at once, or within that function."""
    for path, tree in trees().items():
        late = _only_for_types(tree.body)
        if not late or path.name == "records.py":  # which has two definitions of its names
            continue
        classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
        for node in (*tree.body, *(inner for outer in classes for inner in outer.body)):
            if isinstance(node, (ast.ClassDef, ast.If)):
                continue
            parts = [*_runs(node)]
            imports = [part for part in parts if isinstance(part, (ast.Import, ast.ImportFrom))]
            here = {alias.asname or alias.name for part in imports for alias in part.names}
            used = {part.id for part in parts if isinstance(part, ast.Name)}
            assert used.isdisjoint(late - here), (path, used & (late - here))


def test_what_counts_as_import() -> None:
    text = "import a\nif x:\n  import b\nelse:\n  import c\ntry:\n  import d\n"
    text += "except E:\n  import e\nclass C:\n  import f\n  def g(self):\n    import inside\n"
    text += "if TYPE_CHECKING:\n  import never\nmatch x:\n  case 1:\n    import g\n"
    body = ast.parse(text).body
    assert modules_imported(body, in_functions=False) == list("abcdefg")
    assert sorted(modules_imported(body, in_functions=True)) == [*"abcdefg", "inside"]


# ----------------------------------------------------------------------------------- files


def test_the_page_of_modules_is_up_to_date() -> None:
    silent = {name_of(path) for path, tree in trees().items() if not tree.body}
    assert all(first_words(path) for path in FILES if name_of(path) not in silent)
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m tests.module_list --write"


def test_files_are_not_long() -> None:
    for path in FILES:
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 600, path


def test_thresholds_decide_something() -> None:
    used = {
        node.attr
        for tree in trees().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    }
    assert set(Thresholds.__annotations__) <= used


def test_constants_say_what_they_are() -> None:
    for path, tree in trees().items():
        for node in tree.body:
            targets = node.targets if isinstance(node, ast.Assign) else []
            names = {part.id for t in targets for part in ast.walk(t) if isinstance(part, ast.Name)}
            assert names.isdisjoint({"FEW", "MOST", "_FEW", "_MOST"}), path


def test_devices_implement_the_protocols() -> None:
    """What only an accelerator has, the CPU has not; a single GPU is no group."""
    of = {kind: {name for name in vars(kind) if not name.startswith("_")} for kind in PROTOCOLS}
    for made in (Cpu, Host, Gpu, DeviceGroup):
        assert of[Device] <= {*dir(made), *Gpu.__init__.__code__.co_names}, made
    assert cpu_ops.on_device is None and isinstance(Sums.on_device, property)
    assert not of[Accelerator] & {*dir(Cpu)} and of[Accelerator] <= {*dir(Gpu)}
    assert not of[AcceleratorGroup] & {*dir(Gpu)} and of[AcceleratorGroup] <= {*dir(DeviceGroup)}
    assert CPU.accelerator is None and HOST.accelerator is None and group_of(CPU) is None


# ----------------------------------------------------------------------------------- plans

PLANS = re.findall(r"^```datalog\n(.*?)^```\n\n```text\n(.*?)^```$", TEXT, re.M | re.S)


@pytest.mark.parametrize(("program", "shown"), PLANS)
def test_the_plans_that_are_shown(program: str, shown: str) -> None:
    (edges,) = re.findall(r"over the edges\s+([\d, ]+):", TEXT)
    with gd.connect() as db:
        db["E"] = [(int(a), int(b)) for a, b in edges.split(", ")]
        params = {"other": 1} if "$other" in program else {}
        assert str(db.explain(program, params)) + "\n" == shown


def test_there_are_plans() -> None:
    assert len(PLANS) == TEXT.count("```text") == 1
