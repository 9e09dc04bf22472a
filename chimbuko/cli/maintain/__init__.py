"""Verbs that look after runs, stores and the machine.

Imports provenance, doctor and the options.
"""
