"""Watches, for a run, what its programs publish of their computation.

May import namespaces.analyses, namespaces.client, namespaces.exchange, namespaces.metrics,
namespaces.sources, namespaces.views, process and
protocol.
Its process begins in ``__main__``. What it finds is at the run's broker, for the store's writer
(``protocol.keys``): all of it each time, so that neither has to know what the other has done already.
What charts show of all that is published is a file in the run's folder (``viewsfile``).
"""
