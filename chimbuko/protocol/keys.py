"""All that a run has at its broker: each key, what it holds, who writes it and who reads it."""

from __future__ import annotations

# What stands in braces decides where in a cluster a key is: all are together, since some change together.
DELTAS = "{chimbuko}:deltas"
"""Stream of ``Delta``, agents to server."""
ACKS = "{chimbuko}:acks"
"""Hash: agent to an ``Acknowledgement``."""
MODEL_UPDATES = "{chimbuko}:model-updates"
"""Stream of ``ModelUpdate``, server to agents."""
MODEL = "{chimbuko}:model"
"""Hash: number of a function to its row of the model, as a ``PackedTable`` of one row."""
FUNCTIONS = "{chimbuko}:functions"
"""List of ``FunctionName``, in order of their numbers."""
RECORDS = "{chimbuko}:records"
"""Stream of ``RecordBatch``, agents to store."""
RECORD_ACKS = "{chimbuko}:record-acks"
"""Hash: stream key to the last batch sequence that is committed in the store."""
STATISTICS = "{chimbuko}:statistics"
"""Stream of ``RunStatistics``, server to store, which removes what it has written."""
WAKE = "{chimbuko}:wake"
"""Stream of empty entries, anybody to server and store: somebody waits, so neither do they."""
STORE_NEWS = "{chimbuko}:store-news"
"""Stream of lines for the user, anybody to services: what keeps records from being stored and when it ends,
what there is no room for."""
FRAMES = "{chimbuko}:frames"
"""Stream of ``Frame``, server to dashboards."""
DASHBOARD = "{chimbuko}:dashboard"
"""Key with the address of the dashboard, without its token; ends in ``/``."""
SNAPSHOT_WANTED = "{chimbuko}:snapshot-wanted"
"""Key that a dashboard sets which came late, or was away."""
SNAPSHOT = "{chimbuko}:snapshot"
"""Key with the answer: a ``Frame`` with all there is. Frames of a higher tick go on from there."""
PROGRAMS = "{chimbuko}:programs"
"""Hash: program name to program index."""
RECALL_REQUESTS = "{chimbuko}:recorder-requests"
"""Stream of ``RecallRequest``, anybody to agents."""
RECALL_ANSWERS = "{chimbuko}:recorder-answers"
"""Begins the key of a list of ``RecallAnswer`` that ends in the request's id, and of a count of its bytes."""

RUN = "{chimbuko}:run"
"""Key with the id of the run that uses the broker's database."""

OWNERS = "{chimbuko}:rank-owners"
"""Hash: program and rank to the agent that reads its stream."""
RIVALS = "{chimbuko}:rank-rivals"
"""Hash: program and rank to an agent that found another stream of it, which is not read."""
INSTANCES = "{chimbuko}:instances"
"""Hash: program and number of an instance, from 1 on, to the rank in the run of what it takes for rank 0."""

ROLL_CALL = "{chimbuko}:roll-call"
"""Hash: agent to its ``Answer``."""
ENDING = "{chimbuko}:ending"
"""There from the start of the services on; what it holds says whether the run is to come to an end."""

JOBS = "{chimbuko}:jobs:"
"""Begins the keys of long questions and their workers (``viz.jobs.keys``), who may have another broker."""

OF_RUN = (
    DELTAS,
    ACKS,
    MODEL_UPDATES,
    MODEL,
    FUNCTIONS,
    RECORDS,
    RECORD_ACKS,
    STATISTICS,
    WAKE,
    STORE_NEWS,
    FRAMES,
    DASHBOARD,
    SNAPSHOT_WANTED,
    SNAPSHOT,
    PROGRAMS,
    RECALL_REQUESTS,
    RUN,
    OWNERS,
    RIVALS,
    INSTANCES,
    ROLL_CALL,
    ENDING,
)
"""Those that a run leaves behind, if nobody removes them."""
