"""Heap profiles: reading, symbolizing, showing, comparing. docs/profile.md is the user's document."""
