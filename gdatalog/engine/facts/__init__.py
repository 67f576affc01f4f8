"""The data of a program: facts, files, inputs, and their dictionary codes."""
