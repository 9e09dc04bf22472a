"""Benchmarks of publishing observations in namespaces."""
