"""Prints join plans as loops."""
