"""Heap profiles from outside: read, symbolised, shown, compared. docs/profile.md has the user's side."""
