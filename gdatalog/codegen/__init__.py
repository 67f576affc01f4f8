"""Compiles printed loops to machine code."""
