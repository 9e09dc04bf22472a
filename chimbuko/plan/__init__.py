"""What an analysis costs a program, and where it should run.

May import capture.follow, capture.trace and runtime.protocol.
"""
