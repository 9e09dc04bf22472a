"""Starts, watches and ends the processes of a run; the command line is one of its callers.

Imports every room but cli.
Its process begins in ``controller``.
"""
