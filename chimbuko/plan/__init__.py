"""Costs of an analysis for a program, and the place where it should run.

May import capture.follow, capture.trace, core.statistics, runtime.process and runtime.protocol.
"""
