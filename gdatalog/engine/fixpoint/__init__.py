"""Recursive strata: one module for each strategy, and the sets of rows that they share."""
