"""The causes that lie in the node: what a thread did in the time that its call lost, divided among them.

May import causes.evidence, core.calls and monitor.procfs.
"""
