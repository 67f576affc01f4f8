"""The data of a program: facts, files, inputs, and outputs."""
