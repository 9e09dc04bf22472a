"""The monitor's process: which of several samples a node, on which core, and what it does each period.

May import monitor.procfs, monitor.report, monitor.sampling and runtime.process.
It begins in ``session.Session``, which the command line and ``inprocess.start`` drive.
"""
