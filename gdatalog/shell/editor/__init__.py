"""The line editor."""
