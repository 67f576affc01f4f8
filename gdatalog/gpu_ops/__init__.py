"""What a GPU runs: kernels, tries, and loops for join plans."""
