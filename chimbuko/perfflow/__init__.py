"""PerfFlowAspect's conventions: its options, pointcuts and flows, and its trace files and their names.

May import nothing of ours.
"""
