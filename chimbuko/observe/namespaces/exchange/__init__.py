"""Trees of leaves, which are the state of namespaces, and their exchange between clients, readers and
instances.

May import runtime.protocol.

A **shard** is what one instance keeps of a namespace of a job: a log of publications, and the state that they
make up. Clients append to the log, the instance merges it into the state, and a reader does with what is not
merged yet as the instance will: so all that was published can be read at once, also while no instance lives.
"""
