"""Branches: nested loops that compute an existence test, a count or an aggregate for each row."""

from __future__ import annotations

from collections.abc import Sequence

from gdatalog.plan.nodes import Branch
from gdatalog.printer.accumulate import Accumulators, accumulable
from gdatalog.printer.expressions import Unprintable
from gdatalog.printer.leaves import BranchCount, Gathered, WitnessLeaf
from gdatalog.printer.nest import NestPrinter
from gdatalog.printer.recode import count_bits
from gdatalog.printer.scope import KnownPositions


def print_branch(nest: NestPrinter, step: Branch, known: KnownPositions) -> None:
    split, nest.split = nest.split, True  # loops in a branch are not split into tasks
    if step.mode == "aggregate":
        _aggregate(nest, step, known)
    elif step.mode == "count":
        _count(nest, step, known)
    else:
        _exists(nest, step, known)
    nest.split = split


def _inside(known: KnownPositions) -> KnownPositions:
    """The state at the start of a branch: weights of outer rows do not apply to its rows."""
    inner = known.inner()
    inner.weights = []
    inner.clip = inner.unit = None
    inner.spread = False
    return inner


def _exists(nest: NestPrinter, step: Branch, known: KnownPositions) -> None:
    text = nest.text
    found = text.name("found")
    text.line(f"{found} = False")
    for number, inside in enumerate(step.alternatives):
        inner = _inside(known)
        inner.found = found
        once = text.name("once")
        # later alternatives run only if no earlier one has a match
        turns = "1" if number == 0 else f"0 if {found} else 1"
        with text.block(f"for {once} in range({turns})"):
            nest.run(inside, 0, inner, WitnessLeaf(found))
    with text.block(f"if {'not ' if step.mode == 'exists' else ''}{found}"):
        text.line("continue")


def _count(nest: NestPrinter, step: Branch, known: KnownPositions) -> None:
    text = nest.text
    counts: list[str] = []
    for inside in step.alternatives:
        if step.terms or not counts:
            counts.append(text.name("count"))
            text.line(f"{counts[-1]} = np.int64(0)")
        inner = _inside(known)
        inner.found = None
        leaf = BranchCount(counts[-1])
        if inner.group is not None and count_bits(nest, inside, leaf, inner):
            continue
        inner.group = None
        with text.block(f"for {text.name('once')} in range(1)"):
            nest.run(inside, 0, inner, leaf)
    count = _signed_sum(nest, step, counts) if step.terms else counts[0]
    with text.block(f"if {count} == 0"):
        text.line("continue")
    known.weights.append(count)


def _signed_sum(nest: NestPrinter, step: Branch, counts: Sequence[str]) -> str:
    """The signed sum of the terms. Only the first term, the largest, may leave 64 bits."""
    text, total = nest.text, nest.text.name("count")
    for number, (coefficient, (first, *others)) in enumerate(step.terms):
        product = counts[first]
        for other in others:
            if number == 0 or nest.modular:
                product = nest.product(product, counts[other])
            else:
                product = f"{product} * {counts[other]}"
        if abs(coefficient) != 1:
            product = f"{abs(coefficient)} * ({product})"
        if number == 0:
            assert coefficient > 0
            text.line(f"{total} = np.int64({product})")
        elif nest.modular:
            signed = product if coefficient > 0 else f"(modulus - {product} % modulus)"
            text.line(f"{total} = {nest.sum(total, signed)}")
        else:
            text.line(f"{total} {'+' if coefficient > 0 else '-'}= {product}")
    return total


def _aggregate(nest: NestPrinter, step: Branch, known: KnownPositions) -> None:
    reduction, text = step.reduction, nest.text
    assert reduction is not None
    if len(step.alternatives) > 1 or reduction.exports or not accumulable(reduction.kind):
        raise Unprintable(f"{reduction.kind} over alternatives or with its witnesses")
    inner = _inside(known)
    inner.found = None
    accumulators = Accumulators(nest, [reduction])
    accumulators.start()
    with text.block(f"for {text.name('once')} in range(1)"):
        nest.run(step.alternatives[0], 0, inner, Gathered(accumulators))
    value = accumulators.value(0)
    if reduction.kind not in ("count", "sum"):
        with text.block(f"if {accumulators.count} == 0"):
            text.line("continue")
    nest.bind(reduction.variable, value, known)
