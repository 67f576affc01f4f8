"""Prints branches: loops that compute an existence test, a count or an aggregate for each row."""

from __future__ import annotations

from collections.abc import Sequence

from gdatalog.plan import join_plan as plan
from gdatalog.plan.functions import ACCUMULATED
from gdatalog.printer.expressions import Unprintable
from gdatalog.printer.leaves import Accumulators, BranchCount, Gathered, WitnessLeaf
from gdatalog.printer.nest import NestPrinter, Point
from gdatalog.printer.recode import count_bits


def print_branch(here: Point, step: plan.Branch) -> None:
    nest = here.nest
    split, nest.split = nest.split, True  # a branch's loops are not split into tasks
    if step.mode == "aggregate":
        _aggregate(here, step)
    elif step.mode == "count":
        _count(here, step)
    else:
        _exists(here, step)
    nest.split = split


def _exists(here: Point, step: plan.Branch) -> None:
    text, found = here.text, here.text.name("found")
    text.line(f"{found} = False")
    for number, inside in enumerate(step.alternatives):
        inner = here.inside(inside, WitnessLeaf(found))
        inner.found = found
        # later alternatives run only if no earlier one has a match
        inner.run_once("1" if number == 0 else f"0 if {found} else 1")
    with text.block(f"if {'not ' if step.mode == 'exists' else ''}{found}"):
        text.line("continue")


def _count(here: Point, step: plan.Branch) -> None:
    nest, text = here.nest, here.text
    counts: list[str] = []
    for inside in step.alternatives:
        if step.terms or not counts:
            counts.append(text.name("count"))
            text.line(f"{counts[-1]} = np.int64(0)")
        inner = here.inside(inside, BranchCount(counts[-1]))
        if inner.group is None or not count_bits(inner):
            inner.group = None
            inner.run_once()
    count = _signed_sum(nest, step, counts) if step.terms else counts[0]
    with text.block(f"if {count} == 0"):
        text.line("continue")
    here.weights.append(count)


def _signed_sum(nest: NestPrinter, step: plan.Branch, counts: Sequence[str]) -> str:
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


def _aggregate(here: Point, step: plan.Branch) -> None:
    reduction, text, leaf = step.reduction, here.text, Gathered()
    assert reduction is not None
    if len(step.alternatives) > 1 or reduction.exports or reduction.kind not in ACCUMULATED:
        raise Unprintable(f"{reduction.kind} over alternatives or with its witnesses")
    accumulators = Accumulators(here.nest, [reduction])
    leaf.gather(accumulators)
    here.inside(step.alternatives[0], leaf).run_once()
    value = accumulators.value(0)
    if reduction.kind not in ("count", "sum"):
        with text.block(f"if {accumulators.count} == 0"):
            text.line("continue")
    here.bind(reduction.variable, value)
