"""The live picture of a running program: its figures, history, lines, and terminal."""
