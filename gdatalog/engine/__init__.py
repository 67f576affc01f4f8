"""The engine: evaluates sessions, strata and rules on devices."""
