"""The dashboard: web server, HTTP API, live events; its page is made from ``web/``.

May import runtime.process, runtime.protocol, runtime.runs, viz.http and viz.jobs.
Its process begins in ``__main__``.
"""
