"""The causes of lost time, by families that share evidence; ``registry`` has their order.

May import causes, causes.evidence, core.calls and monitor.procfs.
"""
