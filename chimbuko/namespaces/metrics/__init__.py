"""Anomalies of what a program computes: conserved quantities that drift, ranks that depart, NaNs. No I/O.

May import nothing of ours.

``MetricWatch`` takes the values of all ranks, sample by sample, and yields findings; ``Quantity`` makes such
samples of what single ranks publish.
"""
