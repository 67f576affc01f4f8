"""What the engine keeps of programs: their texts, checked and planned, and evaluated strata."""
