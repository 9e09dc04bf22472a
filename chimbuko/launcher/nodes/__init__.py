"""Runs on many nodes: their services, and the agent of each node.

May import calls, follow, formats.streams, launcher, launcher.outcome, launcher.services, process,
protocol, provenance.alerts, provenance.manage, provenance.query, runs, shield and trace.
"""
