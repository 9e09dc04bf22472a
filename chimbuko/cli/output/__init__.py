"""Tables and lists on standard output.

Imports provenance.manage.
"""
