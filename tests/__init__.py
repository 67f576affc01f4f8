"""Tests: a package, so that the oracle and the generators can be imported by name."""
