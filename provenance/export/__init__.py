"""A run for other tools: trace viewers, tables, Chimbuko's version 2, DataFrames.

Imports provenance.query, provenance.timeline and provenance.compare.
"""
