"""Samples of a node while a run goes on: what is kept of them, and what leaves the node.

May import monitor.findings, monitor.gpus, monitor.procfs, monitor.samples, monitor.sampling and
monitor.topology.
It begins in ``collector.Collector``, which has no thread of its own.
"""
