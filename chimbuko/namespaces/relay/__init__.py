"""Publishes for programs in C and C++, which write what they publish into files of their node's memory.

May import namespaces.client, namespaces.exchange and process.

``lines`` reads what ``chimbuko_namespaces.h`` of the recorder writes, ``relaying`` runs a program beside it.
"""
