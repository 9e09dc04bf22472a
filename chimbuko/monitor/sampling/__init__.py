"""Samples of a node's processes, what they did between two samples, and the rows and batches that the store
gets.

May import monitor.procfs, runtime.process and runtime.runs.
It begins in ``sampler.Sampler``; ``difference.difference`` makes a span of two samples, and spans add up.
"""
