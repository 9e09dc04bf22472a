"""Verbs that run an analysis, a part of one, or a traced program.

Imports launcher, tracer and the options.
"""
