"""Runs on many nodes: their services, and the agent of each node.

May import follow, launcher, launcher.outcome, process, protocol, provenance.alerts, provenance.manage,
runs, shield and trace.
"""
