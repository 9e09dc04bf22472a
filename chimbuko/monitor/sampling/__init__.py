"""Samples of a node's processes, and what they did between two samples.

May import monitor.procfs, runtime.process and runtime.runs.
It begins in ``sampler.Sampler``; ``difference.difference`` makes a span of two samples, and spans add up.
"""
