"""The live picture of a running program: what is looked at, kept, drawn, and the terminal that it is drawn on."""
