"""Connecting a database to a Dask cluster."""

from __future__ import annotations

import os

import pytest

from tests.clusters import Workers


@pytest.mark.parametrize("number", [1, 3, 2])
def test_as_many_workers_as_are_asked_for(cluster: Workers, number: int) -> None:
    client = cluster(number)
    processes = client.run(os.getpid).values()
    assert len(set(processes) - {os.getpid()}) == number
