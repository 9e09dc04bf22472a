"""What was published in a run, as charts show it: tasks, nodes, time in MPI, and quantities rank by rank.

May import namespaces.analyses, namespaces.exchange and namespaces.tree.

``gathering`` takes observations one by one, and keeps a bounded number of points of each thing; ``views`` is
what comes of it, in one file of the run's folder, which is there after the run, too.
"""
