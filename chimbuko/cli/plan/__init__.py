"""Verbs that say what an analysis costs, and where it should run.

May import cli.output, plan, plan.insitu, provenance.nodes and runtime.runs.
"""
