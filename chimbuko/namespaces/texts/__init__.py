"""Observations and addresses as files that other programs read: Conduit's JSON, YAML, SOMA's address files.

May import namespaces.tree.

``conduit`` and ``plain`` make texts of trees, ``registry`` has all of them by name. No I/O.
"""
