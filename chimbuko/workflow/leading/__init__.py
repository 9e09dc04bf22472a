"""Leads a workflow: services first, monitors next, tasks as the scheduler says, services out last.

May import launcher.jobs, namespaces.client, namespaces.exchange, namespaces.tree, process, protocol,
provenance.nodes, runs, workflow.records and workflow.tasks.
It begins in ``leader``.
"""
