"""The folder of one run: what it holds, what the run was made in, and where its parts may lie.

May import nothing of ours.
"""
