"""The checks: from a program as it is written to one with types, or all of its errors."""
