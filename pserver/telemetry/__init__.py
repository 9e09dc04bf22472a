"""What agents report beside statistics, merged: call paths, counters, messages, slow ranks. No I/O.

May import calls, kernels, protocol, pserver.kernels and statistics.
"""
