"""The dashboard: web server, HTTP API, live events; its page is made from ``web/``."""
