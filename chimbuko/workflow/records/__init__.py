"""Tasks in the namespace ``workflow``: what is published of them, by whom, and RADICAL-Pilot's profiles.

May import monitor.procfs, namespaces.client, namespaces.exchange and workflow.tasks.
"""
