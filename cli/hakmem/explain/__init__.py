"""Explains a program's resident memory part by part, with advice for each."""
