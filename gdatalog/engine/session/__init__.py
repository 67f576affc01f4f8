"""Sessions: a text, its prepared program, and the evaluation of its requests."""
