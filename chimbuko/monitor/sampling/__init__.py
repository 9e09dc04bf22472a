"""Samples of a node's processes, and what they did between two samples.

May import monitor.gpus, monitor.procfs, process and runs.
It begins in ``sampler.Sampler``; ``span.difference`` makes a span of two samples, and spans add up.
"""
