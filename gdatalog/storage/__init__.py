"""Storage: rows, tries, statistics and files."""
