"""Publishes what programs write into files: by our header for C and C++, and by Caliper.

May import formats.readers, namespaces.analyses, namespaces.client, namespaces.exchange, namespaces.tree and
process.

``lines`` reads what ``chimbuko_namespaces.h`` of the recorder writes, ``relaying`` runs a program beside it.
``caliperprofile`` reads what Caliper writes, ``calipermonitor`` follows it.
"""
