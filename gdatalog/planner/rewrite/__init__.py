"""Rewritings: rules and counts that give the same answers at a lower cost."""
