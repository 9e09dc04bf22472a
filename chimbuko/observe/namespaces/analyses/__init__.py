"""Analyses of the values published in a namespace, by name; installed packages can add their own.

May import observe.namespaces.exchange.

An analysis is a function from observations, in order of time, to values in dictionaries in each other. It
knows no service. ``registry`` has those that are there, and those that packages declare.
"""
