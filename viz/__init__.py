"""Dashboard: web server, HTTP API and live events; its page is built from ``web/``.

May import runtime.process, runtime.protocol, runtime.runs, viz.http and viz.jobs.
Its process begins in ``__main__``.
"""
