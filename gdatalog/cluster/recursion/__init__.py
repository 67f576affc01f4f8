"""Recursive strata that are spread over a cluster's workers."""
