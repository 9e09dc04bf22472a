"""Verbs that say what an analysis costs, and where it should run.

May import cli.shared, plan, provenance.nodes and runtime.runs.
"""
