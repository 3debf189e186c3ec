"""Why a program has so much memory resident, part by part, and what can be done about each."""
