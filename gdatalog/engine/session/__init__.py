"""A session: texts, prepared programs, settings, and the evaluation of what is asked."""
