"""Dataclasses whose methods are made on first use.

The standard library compiles up to six methods per dataclass when its module is imported, which
takes half a millisecond per class. A small query imports two hundred classes and uses few of their
methods; `__init__` is compiled once a class has more than some objects. Type checkers see the
standard library's `dataclass`, and this one behaves the same: `init`, `repr`, `eq`, hashes,
`frozen`, `slots`, defaults, `__post_init__`, pickling. `order`, `kw_only`, `ClassVar` and `InitVar`
are not supported.

`dataclasses.fields`, `asdict` and other functions of the standard library accept these classes.

`cached_property` is that of Python 3.12: threads that compute a property at the same time do not
wait for each other. In Python 3.11 they do, for all objects of a class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, repeat
from operator import attrgetter
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

Made = TypeVar("Made")
UNCOMPILED_CALLS = 16  # calls of `__init__` before it is compiled
_MISSING: Any = type("MISSING", (), {"__repr__": lambda self: "<factory>"})()
_FIELDS = "__record_fields__"
_DEFAULTS = "__record_defaults__"
_KIND = "__record_kind__"  # whether it is frozen, and whether it has `__eq__`
_OPTIONS = ("default", "default_factory", "init", "repr", "compare")


class cached_property(Generic[Made]):  # as in the standard library
    """A property that is computed once, and kept in the object's `__dict__`."""

    def __init__(self, make: Callable[[Any], Made]) -> None:
        self.make = make
        self.__doc__ = make.__doc__

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type[Any]) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type[Any]) -> Made: ...
    def __get__(self, instance: Any, owner: type[Any]) -> Any:
        if instance is None:
            return self
        made = vars(instance)[self.name] = self.make(instance)
        return made


class Field:
    """The declaration of a field."""

    __slots__ = ("compare", "default", "default_factory", "init", "name", "repr", "type")

    def __init__(
        self,
        *,
        default: Any = _MISSING,
        default_factory: Callable[[], Any] = _MISSING,
        init: bool = True,
        repr: bool = True,
        compare: bool = True,
    ) -> None:
        self.name = ""
        self.type: Any = None
        self.default = default
        self.default_factory = default_factory
        self.init = init
        self.repr = repr
        self.compare = compare


def _dataclass(
    cls: type[Any] | None = None,
    *,
    frozen: bool = False,
    slots: bool = False,
    eq: bool = True,
    weakref_slot: bool = False,
) -> Any:
    """Like `dataclasses.dataclass`."""
    if cls is None:
        options = {"frozen": frozen, "slots": slots, "eq": eq, "weakref_slot": weakref_slot}
        return lambda given: _dataclass(given, **options)
    own = vars(cls)
    defaults = _defaults_of(cls)
    new: dict[str, Any] = {_DEFAULTS: defaults, _KIND: (frozen, eq)}
    made: list[type[Any]] = []  # will hold the class
    for name, make in _LATE:
        if name not in own:
            new[name] = _Late((name, make, made)) if make is not _init else _first_inits(made)
    if not eq:
        new.pop("__eq__", None)
    elif own.get("__hash__") is None:
        new["__hash__"] = _Late(("__hash__", _hash, made)) if frozen else None
    if frozen:
        new["__setattr__"], new["__delattr__"] = _refuse_to_set, _refuse_to_delete
        if slots:
            new["__getstate__"] = own.get("__getstate__", _getstate)
            new["__setstate__"] = own.get("__setstate__", _setstate)
    done: type[Any] = cls
    if slots:
        bases = cls.__mro__[1:-1]
        names: dict[str, None] = {}
        for base in reversed(bases):
            names |= dict.fromkeys(getattr(base, _FIELDS, ()))
        names |= dict.fromkeys(cls.__annotations__)
        rest = {name: value for name, value in own.items() if name not in names} | new
        rest.pop("__dict__", None)
        rest.pop("__weakref__", None)
        inherited = set(chain.from_iterable(map(_slots_of, bases)))
        listed = tuple(name for name in names if name not in inherited)
        rest["__slots__"] = (*listed, "__weakref__") if weakref_slot else listed
        remade: Any = type(cls)
        done = remade(cls.__name__, cls.__bases__, rest)
        done.__qualname__ = cls.__qualname__
    else:
        for name, value in new.items():
            setattr(cls, name, value)
    made.append(done)
    return done


def _defaults_of(cls: type[Any]) -> dict[str, Any]:
    """The fields that a class declares with defaults, or as `Field`. In the class their defaults
    replace `Field` objects."""
    own = vars(cls)
    defaults = {name: own[name] for name in cls.__annotations__ if name in own}
    for name, given in defaults.items():
        default = given.default if type(given) is Field else given
        if type(default).__hash__ is None:
            raise ValueError(f"mutable default for field {name}: use default_factory")
        if default is _MISSING:
            delattr(cls, name)
        elif default is not given:
            setattr(cls, name, default)
    return defaults


def _slots_of(base: type[Any]) -> Iterator[str]:
    slots = vars(base).get("__slots__", ())
    return iter((slots,) if isinstance(slots, str) else slots)


class _Late(tuple[str, Callable[[type[Any]], Any], list[type[Any]]]):
    """A descriptor that makes an attribute of a class on first use and is replaced by it: its name,
    what makes it, and a list that holds the class."""

    __slots__ = ()

    def __get__(self, instance: object, owner: type[Any] | None = None) -> Any:
        name, make, (cls,) = self
        value = make(cls)
        if callable(value):
            value.__module__, value.__qualname__ = cls.__module__, f"{cls.__qualname__}.{name}"
        setattr(cls, name, value)
        return value.__get__(instance, owner) if callable(value) else value


def _fields_of(cls: type[Any]) -> dict[str, Field]:
    """The fields of a class, inherited ones first."""
    fields: dict[str, Field] = {}
    for base in cls.__mro__[-2:0:-1]:
        if _FIELDS in vars(base):
            fields.update(getattr(base, _FIELDS))
    for name, annotation in cls.__annotations__.items():
        given = vars(cls)[_DEFAULTS].get(name, _MISSING)
        field = given if type(given) is Field else Field(default=given)
        field.name, field.type = name, annotation
        fields[name] = field
    return fields


def _standard(cls: type[Any]) -> Any:
    """A class of the standard library with the same fields."""
    import dataclasses

    frozen, eq = vars(cls)[_KIND]

    def standard(field: Field) -> Any:
        given = {name: getattr(field, name) for name in _OPTIONS}
        return dataclasses.field(**{k: v for k, v in given.items() if v is not _MISSING})

    fields = [(f.name, f.type, standard(f)) for f in getattr(cls, _FIELDS).values()]
    return dataclasses.make_dataclass(cls.__name__, fields, frozen=frozen, eq=eq)


def _first_inits(made: list[type[Any]]) -> Callable[..., None]:
    """`__init__` of a class with few objects: it sets the fields in a loop, because compiling the
    method takes as long as a hundred calls. After `UNCOMPILED_CALLS` the compiled method replaces
    it."""
    calls = 0
    # Which names are parameters, by the order of the fields; defaults and their makers.
    parts: tuple[tuple[str, bool, Any, Any], ...] = ()

    def __init__(record: Any, /, *args: Any, **named: Any) -> None:
        nonlocal calls, parts
        (cls,) = made
        calls += 1
        if calls == 1:
            fields = getattr(cls, _FIELDS).values()
            parts = tuple([(f.name, f.init, f.default, f.default_factory) for f in fields])
        elif calls > UNCOMPILED_CALLS:
            compiled = cls.__init__ = _init(cls)
            compiled(record, *args, **named)  # a class derived from it has its own
            return
        store = object.__setattr__ if vars(cls)[_KIND][0] else setattr
        at, rest = 0, dict(named)
        for name, given, value, make in parts:
            if given and at < len(args):
                value, at = args[at], at + 1
            elif given and name in rest:
                value = rest.pop(name)
            elif make is not _MISSING:
                value = make()
            if value is not _MISSING:
                store(record, name, value)
            elif given:
                break
        else:
            if at == len(args) and not rest:
                if hasattr(cls, "__post_init__"):
                    record.__post_init__()
                return
        _init(cls)(record, *args, **named)  # raises the error that Python gives

    __init__.__wrapped__ = _Signed(made)  # type: ignore[attr-defined]  # as of functools.wraps
    return __init__


class _Signed:
    """What `inspect.signature` shows of an `__init__` that is not compiled yet."""

    __slots__ = ("_made",)

    def __init__(self, made: list[type[Any]]) -> None:
        self._made = made

    def __call__(self) -> None:
        """It has a signature, as functions have."""

    @property
    def __signature__(self) -> Any:
        from inspect import signature

        return signature(_init(*self._made))


def _init(cls: type[Any]) -> Any:
    frozen, _ = vars(cls)[_KIND]
    names: dict[str, Any] = {"_MISSING": _MISSING, "_set": object.__setattr__}
    parameters, lines = ["self"], []
    for field in getattr(cls, _FIELDS).values():
        name = value = field.name
        made = field.default_factory is not _MISSING
        if field.default is not _MISSING:
            names[f"_default_{name}"] = field.default
        if made:
            names[f"_make_{name}"] = field.default_factory
        if not field.init:
            if field.default is _MISSING and not made:
                continue
            value = f"_make_{name}()" if made else f"_default_{name}"
        elif made:
            parameters.append(f"{name}=_MISSING")
            value = f"_make_{name}() if {name} is _MISSING else {name}"
        else:
            given = field.default is not _MISSING
            parameters.append(f"{name}=_default_{name}" if given else name)
        slot = getattr(cls, name, None)
        if not frozen:
            lines.append(f"self.{name} = {value}")
        elif isinstance(slot, MemberDescriptorType):  # faster than by its name
            names[f"_set_{name}"] = slot.__set__
            lines.append(f"_set_{name}(self, {value})")
        else:
            lines.append(f"_set(self, {name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    body = "\n ".join(lines or ["pass"])
    found: dict[str, Any] = {}
    exec(f"def __init__({', '.join(parameters)}):\n {body}", names, found)
    method = found["__init__"]
    method.__annotations__ = {f.name: f.type for f in getattr(cls, _FIELDS).values() if f.init}
    method.__annotations__["return"] = None
    method.__module__, method.__qualname__ = cls.__module__, f"{cls.__qualname__}.__init__"
    return method


def _repr(cls: type[Any]) -> Any:
    from reprlib import recursive_repr

    names = [field.name for field in getattr(cls, _FIELDS).values() if field.repr]

    def __repr__(self: Any) -> str:
        shown = []
        for name in names:
            shown.append(f"{name}={getattr(self, name)!r}")
        return f"{self.__class__.__qualname__}({', '.join(shown)})"

    return recursive_repr()(__repr__)


def _compared(cls: type[Any]) -> Callable[[Any], Any]:
    """Returns the compared field of a record, or all of them as a tuple."""
    names = [field.name for field in getattr(cls, _FIELDS).values() if field.compare]
    return attrgetter(*names) if names else lambda record: ()


def _eq(cls: type[Any]) -> Any:
    compared = _compared(cls)

    def __eq__(self: Any, other: object) -> Any:
        if other.__class__ is self.__class__:
            return compared(self) == compared(other)
        return NotImplemented

    return __eq__


def _hash(cls: type[Any]) -> Any:
    compared = _compared(cls)

    def __hash__(self: Any) -> int:
        return hash(compared(self))

    return __hash__


def _match_args(cls: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in getattr(cls, _FIELDS).values() if field.init)


# What a class has on first use.
_LATE: tuple[tuple[str, Callable[[type[Any]], Any]], ...] = (
    (_FIELDS, _fields_of),
    ("__init__", _init),
    ("__repr__", _repr),
    ("__eq__", _eq),
    ("__match_args__", _match_args),
    ("__dataclass_fields__", lambda cls: _standard(cls).__dataclass_fields__),
    ("__dataclass_params__", lambda cls: _standard(cls).__dataclass_params__),
)


def _refuse_to_set(self: Any, name: str, value: Any) -> None:
    raise _frozen_error(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: Any, name: str) -> None:
    raise _frozen_error(f"cannot delete field {name!r}")


def _frozen_error(message: str) -> Exception:
    from dataclasses import FrozenInstanceError

    return FrozenInstanceError(message)


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, name) for name in getattr(self, _FIELDS)]


def _setstate(self: Any, state: list[Any]) -> None:
    for name, value in zip(getattr(self, _FIELDS), state, strict=True):
        object.__setattr__(self, name, value)


def _replace(of: Any, /, **changes: Any) -> Any:
    """Like `dataclasses.replace`."""
    names = of.__match_args__
    values = dict(zip(names, map(getattr, repeat(of), names), strict=False))
    for name in changes.keys() & (getattr(of, _FIELDS).keys() - values.keys()):
        raise ValueError(f"{name} is not given to __init__")
    values.update(changes)
    return of.__class__(**values)


def _fields(of: Any) -> tuple[Field, ...]:
    """Like `dataclasses.fields`."""
    return tuple(getattr(of, _FIELDS).values())


def _is_dataclass(of: Any) -> bool:
    """Like `dataclasses.is_dataclass`, for classes of this module."""
    return hasattr(of, _FIELDS)


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from dataclasses import field as field
    from dataclasses import fields as fields
    from dataclasses import is_dataclass as is_dataclass
    from dataclasses import replace as replace
else:
    dataclass, field, replace = _dataclass, Field, _replace
    fields, is_dataclass = _fields, _is_dataclass
