"""The monitor of a node: what its processes, threads and cores do, period by period, without a trace.

May import nothing of ours.
"""
