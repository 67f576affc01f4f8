"""Dataclasses whose methods are compiled late behave as those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import inspect
import pickle
import pkgutil
import weakref
from typing import Any

import pytest

import gdatalog
from gdatalog import records


@records.dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 2
    place: str = records.field(default="here", compare=False, repr=False)


@records.dataclass(frozen=True, slots=True)
class Deep(Point):
    z: list[int] = records.field(default_factory=list, compare=False)
    total: int = records.field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", self.x + self.y)


@records.dataclass(slots=True, weakref_slot=True, eq=False)
class Box:
    held: Any = None


@records.dataclass(frozen=True)
class Open:
    name: str
    size: int = 1

    def __repr__(self) -> str:
        return "open"


@records.dataclass(slots=True)
class Loop:
    next: Any = None


def test_init() -> None:
    assert (Point(1).x, Point(1).y, Point(1).place) == (1, 2, "here")
    assert Deep(1, z=[3]).z == [3]
    assert Deep(1).z is not Deep(1).z
    assert Deep(4, 5).total == 9
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        Point()  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="mutable default"):

        @records.dataclass
        class Wrong:
            held: list[int] = []  # noqa: RUF012


def test_equality_and_hashes() -> None:
    assert Point(1, 2, "a") == Point(1, 2, "b")
    assert hash(Point(1, 2, "a")) == hash(Point(1, 2, "b")) == hash((1, 2))
    assert Point(1) != Point(2)
    assert Point(1) != Deep(1)
    assert Point(1).__eq__(1) is NotImplemented
    assert Loop(1) == Loop(1)
    with pytest.raises(TypeError, match="unhashable"):
        hash(Loop())
    box = Box()
    assert box == box and Box() != Box() and hash(box) == hash(box)


def test_repr() -> None:
    assert repr(Point(1)) == "Point(x=1, y=2)"
    assert repr(Open("a")) == "open"
    loop = Loop()
    loop.next = loop
    assert repr(loop) == "Loop(next=...)"


def test_frozen() -> None:
    for frozen in (Point(1), Open("a")):
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'x'"):
            frozen.x = 2  # type: ignore[misc, union-attr]
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'x'"):
            del frozen.x  # type: ignore[misc, union-attr]
    box = Box()
    box.held = 3
    assert box.held == 3


def test_slots() -> None:
    assert Point.__slots__ == ("x", "y", "place")
    assert Deep.__slots__ == ("z", "total")
    assert not hasattr(Point(1), "__dict__")
    with pytest.raises(AttributeError):
        Loop().other = 1  # type: ignore[attr-defined]
    box = Box()
    assert weakref.ref(box)() is box
    assert Open("a").__dict__ == {"name": "a", "size": 1}


@pytest.mark.parametrize("node", [Point(1), Deep(1, z=[4]), Open("a", 3), Loop(Loop(2))])
def test_copies(node: Any) -> None:
    assert pickle.loads(pickle.dumps(node)) == copy.copy(node) == copy.deepcopy(node) == node
    assert type(pickle.loads(pickle.dumps(node))) is type(node)


def test_replace_and_fields() -> None:
    for replace in (records.replace, dataclasses.replace):
        assert replace(Deep(1, 2), y=5) == Deep(1, 5)
        assert replace(Deep(1, 2), y=5).total == 6
        with pytest.raises(ValueError, match="total"):
            replace(Deep(1), total=3)
    for fields in (records.fields, dataclasses.fields):
        assert [each.name for each in fields(Deep)] == ["x", "y", "place", "z", "total"]
        assert [each.name for each in fields(Point(1))] == ["x", "y", "place"]
    for is_dataclass in (records.is_dataclass, dataclasses.is_dataclass):
        assert is_dataclass(Point) and is_dataclass(Point(1)) and not is_dataclass(3)
    assert dataclasses.asdict(Point(1)) == {"x": 1, "y": 2, "place": "here"}


def test_the_standard_library_inherits() -> None:
    @dataclasses.dataclass(frozen=True)
    class More(Point):
        w: int = 0

    assert More(1, w=3) == More(1, w=3) != More(1)


def test_match() -> None:
    match Point(1, 5):
        case Point(x, y):
            assert (x, y) == (1, 5)


def test_a_method_is_compiled_once() -> None:
    @records.dataclass(slots=True)
    class Late:
        x: int

    assert not inspect.isfunction(vars(Late)["__eq__"])
    assert Late(1) == Late(1)
    method = vars(Late)["__eq__"]
    assert inspect.isfunction(method)
    assert Late(1) != Late(2)
    assert vars(Late)["__eq__"] is method


def test_classes_of_the_package() -> None:
    """Each has the signature that the standard library would give it."""
    seen = 0
    for module in pkgutil.walk_packages(gdatalog.__path__, "gdatalog."):
        if module.name.startswith(("gdatalog.cluster", "gdatalog.notebook", "gdatalog.__main__")):
            continue
        for cls in vars(importlib.import_module(module.name)).values():
            if not (isinstance(cls, type) and cls.__module__ == module.name):
                continue
            if "__record_fields__" not in vars(cls):
                continue
            seen += 1
            fields = [(f.name, f.type, copy.copy(f)) for f in dataclasses.fields(cls)]
            for _, _, field in fields:
                field.kw_only = dataclasses.MISSING  # type: ignore[assignment]
            same = dataclasses.make_dataclass(cls.__name__, fields)
            ours = vars(cls)["__init__"]
            own = str(inspect.signature(ours)).replace("-> 'None'", "-> None")  # of one by hand
            assert own == str(inspect.signature(same.__init__)), cls
            for name in ("__repr__", "__eq__", "__hash__"):
                getattr(cls, name)
    assert seen > 200


def test_a_class_with_parameters_of_its_own_derives_from_a_record() -> None:
    @records.dataclass
    class Base:
        x: int

    class Derived(Base):
        def __init__(self) -> None:
            super().__init__(3)
            self.y = 4

    found = [Derived() for _ in range(3 * records.UNCOMPILED_CALLS)]
    assert {(each.x, each.y) for each in found} == {(3, 4)}
