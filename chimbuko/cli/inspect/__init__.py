"""Verbs that show what a run has found.

Imports provenance, viz and the options.
"""
