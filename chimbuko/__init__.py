"""Chimbuko: in-situ performance anomaly detection for HPC workflows."""

__version__ = "0.1.0"
