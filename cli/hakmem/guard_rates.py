"""The rates of guards, as tools/generate_docs.py writes them from guarded.h and sampling.h."""

RECOMMENDED_RATE = 1000000
MOST_RATE = 1000000000
