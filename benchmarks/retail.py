"""A shop's data: two fact tables, and what their foreign keys lead to.

    item(ord, part)                6,000,000 rows   orders(ord, cust)                 1,500,000
    sale(part, supp, day, store)   6,000,000        customer(cust, nation, segment)     150,000
                                                    nation(nation, region)                   25
                                                    part(part, brand)                   200,000
                                                    supplier(supp, nation)               10,000
                                                    calendar(day, month)                  2,500
                                                    store(store, city)                      500

Every foreign key is found, once. The rows of all tables are in random order, and all different.
"""

from __future__ import annotations

from math import prod

import numpy as np

from benchmarks.columns import Columns, Relation, distinct

FACTS = 6_000_000


def retail(facts: int = FACTS, seed: int = 5) -> Columns:
    """The tables, for so many rows in each of the two large ones; the days and stores are fixed."""
    random = np.random.default_rng(seed)
    orders, customers, parts = facts // 4, facts // 40, facts // 30
    suppliers, days, stores, nations = facts // 600, 2_500, 500, 25
    sizes = {"ord": orders, "part": parts, "supp": suppliers, "day": days, "store": stores}

    def fact(*keys: str) -> Relation:
        """Different rows: drawn as one number each."""
        many = prod(sizes[key] for key in keys)
        drawn = distinct(random.integers(0, many, facts + facts // 50))
        rest = random.permutation(drawn)[:facts]
        columns = {}
        for key in keys:
            rest, columns[key] = np.divmod(rest, sizes[key])
        assert len(rest) == facts
        return columns

    def dimension(name: str, size: int, **others: int) -> Relation:
        columns = {name: random.permutation(size)}
        columns.update({other: random.integers(0, many, size) for other, many in others.items()})
        return columns

    columns: Columns = {
        "item": fact("ord", "part"),
        "sale": fact("part", "supp", "day", "store"),
        "orders": dimension("ord", orders, cust=customers),
        "customer": dimension("cust", customers, nation=nations, segment=5),
        "part": dimension("part", parts, brand=25),
        "supplier": dimension("supp", suppliers, nation=nations),
        "calendar": dimension("day", days, month=12),
        "store": dimension("store", stores, city=20),
        "nation": {"nation": np.arange(nations), "region": np.arange(nations) % 5},
    }
    return {
        name: {column: values.astype(np.int32) for column, values in relation.items()}
        for name, relation in columns.items()
    }
