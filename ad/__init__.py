"""The node's agent, in sub-packages: what happens to a trace beside the application.

May import nothing of ours.
"""
