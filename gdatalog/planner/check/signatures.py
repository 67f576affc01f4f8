"""Sets of types as bits, and the signatures that arguments of such types fit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gdatalog.decimals import DECIMALS
from gdatalog.parser import syntax as s
from gdatalog.plan.functions import TYPES, Signature
from gdatalog.planner.check.forms import kinds_of_spec
from gdatalog.planner.check.wording import either
from gdatalog.records import dataclass
from gdatalog.values import TYPE_NAMES, TypeName

BIT = {name: 1 << at for at, name in enumerate(TYPES)}
ALL = (1 << len(TYPES)) - 1
INT, FLOAT, BOOL = BIT["int"], BIT["float"], BIT["bool"]
NUMBER = INT | FLOAT
TIMESTAMP = BIT["timestamp"]
MOMENT = TIMESTAMP | BIT["date"]
DECIMAL = sum([BIT[name] for name in DECIMALS])
ONLY: dict[int, TypeName] = {bit: name for name, bit in BIT.items()}


def mask_of(types: Iterable[str]) -> int:
    return sum([BIT[name] for name in types])


def literal_mask(mask: int) -> int:
    """What a literal of these types is where nothing else decides: an int or a timestamp, else a
    float, else the decimal with the fewest digits."""
    return mask & (INT | TIMESTAMP) or mask & FLOAT or mask & -mask


def words_of(mask: int) -> str:
    """`int or float`; all decimals together are `decimal`."""
    names: list[str] = [name for name in TYPE_NAMES if mask & BIT[name]]
    if mask & DECIMAL:
        names.append(ONLY.get(mask & DECIMAL, "decimal"))
    return either(names)


@dataclass(frozen=True, slots=True)
class Overloaded:
    """A call that several signatures may still fit."""

    call: s.FunctionCall
    nodes: list[int]
    result: int
    signatures: list[Signature]


def fits(signature: Signature, masks: Sequence[int], result: int) -> bool:
    """Whether arguments, and a result, that may have these types fit a signature."""
    shared = ALL
    for at, mask in enumerate(masks):
        param = signature.param(at)
        if isinstance(param, tuple):
            shared &= mask & mask_of(param[1])
        elif not mask & mask_of(param):
            return False
    return bool(shared and result & BIT.get(signature.result, shared))


def name_of(call: s.FunctionCall) -> str:
    """How a function is written in the program."""
    if call.name == "format_value":
        return "{:" + str(call.args[1].value) + "}"  # type: ignore[union-attr]  # a constant
    if call.name == "round_to":
        return "round"
    return "date_trunc" if call.name.startswith("date_trunc") else call.name


def mask_of_spec(spec: s.Expr) -> int:
    """The types whose values a format of `format` takes."""
    assert isinstance(spec, s.Const)
    kinds = kinds_of_spec(str(spec.value))
    return mask_of(kinds) | (ALL & ~NUMBER if "symbol" in kinds else 0)
