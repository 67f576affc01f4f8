"""Small graphs to find in larger ones: `db.count(patterns.clique(4))`.

A pattern prints as its rule. Families, suites of papers, edge lists, networkx graphs and DotMotif
texts all give the same kind of object.

>>> import gdatalog as gd
>>> from gdatalog import patterns
>>> db = gd.connect()
>>> db["E"] = [(1, 2), (2, 3), (1, 3), (3, 4)]
>>> db.count(patterns.clique(3)), db.count("house")
(1, 0)
"""

from gdatalog.patterns.families import biclique, clique, cycle, path, star
from gdatalog.patterns.frequent import frequent_rules
from gdatalog.patterns.pattern import Pattern, from_edges, from_networkx
from gdatalog.patterns.suites import from_dotmotif, graphlets, named, suite

__all__ = [
    "Pattern",
    "biclique",
    "clique",
    "cycle",
    "frequent_rules",
    "from_dotmotif",
    "from_edges",
    "from_networkx",
    "graphlets",
    "named",
    "path",
    "star",
    "suite",
]
