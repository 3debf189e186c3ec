"""The command line tool of hakmem: run a program under it, and measure it beside other allocators."""

__version__ = "0.1.0"
