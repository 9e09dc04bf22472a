"""Runtime of a run: its processes, the messages between them, and the folders of runs.

May import nothing of ours.
"""
