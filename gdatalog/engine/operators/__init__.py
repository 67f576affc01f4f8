"""Operators of strata: each file has one, its plan, its words, when it applies and how it runs.

A plan is a tree of operators, plain data that `stratum_planner.py` writes from statistics. Leaves
evaluate a stratum's rules; the others say where, on which form of the data, or what follows if a
condition is met.
"""

from __future__ import annotations

from collections.abc import Mapping

from gdatalog.storage.relation import Relation

Relations = Mapping[str, Relation]
