"""From a text to a compiled program: parsed, checked and planned, each once while nothing that it
depends on changes."""
