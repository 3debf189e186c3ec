"""What a running program says of its memory, for Prometheus and its kin to fetch over HTTP."""
