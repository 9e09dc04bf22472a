"""Folder of one run: its contents, the environment of the run, and where its parts may lie.

May import nothing of ours.
"""
