"""Samples of a node while a run goes on: what is kept of them, and what leaves the node.

May import monitor.procfs, monitor.report and monitor.sampling.
It begins in ``collector.Collector``, which has no thread of its own.
"""
