"""Serves a running program's statistics and heap profile over HTTP, for Prometheus and others."""
