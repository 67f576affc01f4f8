"""What fixpoints are made of: growing relations, indexes of their rows, and joins of new rows."""
