"""Runs on many nodes: their services, the agent of each node, and the scripts that start them all.

May import follow, launcher, launcher.outcome, process, protocol, provenance.alerts, provenance.manage,
runs, shield and trace.
"""
