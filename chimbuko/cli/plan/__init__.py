"""Verbs that say what an analysis costs, and where it should run.

May import cli.output, insitu, insitu.pipeline, overhead, provenance.nodes and runs.
"""
