"""The order of a join's variables: estimates, costs, symmetry, and the search."""
