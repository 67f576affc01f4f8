"""Operators of rules: each file has one, its plan and how it runs; `evaluate.py` composes them."""
