"""The web server: who may come in, the application, events, and several processes on one port.

Imports viz.api, viz.live and viz.jobs.
"""
