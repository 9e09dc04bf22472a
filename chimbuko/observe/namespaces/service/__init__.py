"""Service of namespaces: instances that keep published values, rights of jobs, and the main process.

May import observe.namespaces.analyses, observe.namespaces.client, observe.namespaces.exchange,
runtime.process and runtime.protocol.

``ServiceFolder`` is a service on disk, ``serving`` leads its processes, ``instance`` is the process of one,
and ``worker`` that which runs analyses for those who ask for it.
"""
