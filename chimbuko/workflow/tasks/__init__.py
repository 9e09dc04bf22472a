"""The tasks of a workflow as values, and the state machine that says when each of them runs. No I/O.

May import nothing of ours.

``Scheduler`` is the core: events go in, instructions come out. Only ``reading`` opens a file.
"""
