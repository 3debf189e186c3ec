"""Heap profiles: reading, symbolising, showing, comparing. docs/profile.md is the user's document."""
