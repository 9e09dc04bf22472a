"""The node's agent, in sub-packages: the analysis of traces beside the application.

May import nothing of ours.
"""
