"""The command line tool of hakmem: runs a program under it, and measures it beside other allocators."""

__version__ = "0.1.0"
