"""The order of a join's variables: statistics, estimates, costs, symmetry, and the search."""
