"""The state of an owner in a file, which its worker writes and reads."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import suppress
from typing import IO

from gdatalog.cancellation import current_watch
from gdatalog.cluster.recursion.hash_partition import OwnerInputs, TableBlock
from gdatalog.cluster.recursion.owner_steps import PartitionState, StaleState, StepOutput, given
from gdatalog.limits import Limits


def saved(found: StepOutput, out: bool, path: str) -> str:
    """Writes an owner's state to a file, and with `out` its rows for others; returns the path."""
    limits = Limits()
    with open(path, "wb") as file:
        sent = {to: each.value for to, each in found.items() if isinstance(to, int) and out}
        pickle.dump(sent, file, protocol=5)
        for block in found["state"].blocks():
            limits.poll()
            pickle.dump(block, file, protocol=5)
    return path


def restored(inputs: OwnerInputs, path: str) -> StepOutput:
    """The state of an owner, from its file."""
    try:
        with open(path, "rb") as file:
            out = pickle.load(file)
            return given(PartitionState(None, _blocks(file)).take(inputs), None, out)
    except OSError as error:
        raise StaleState from error


def _blocks(file: IO[bytes]) -> Iterator[TableBlock]:
    with suppress(EOFError):
        while True:
            current_watch().poll()
            yield pickle.load(file)
