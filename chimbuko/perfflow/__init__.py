"""PerfFlowAspect's conventions: its package, options, pointcuts and flows, its trace files and their names.

May import nothing of ours.
"""
