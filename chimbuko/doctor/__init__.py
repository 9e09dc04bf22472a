"""Checks of a machine before a run, each of which tries out the real thing.

Imports launcher, provenance.store and what is checked.
"""
