"""All that a run has at its broker: each key, what it holds, who writes it and who reads it."""

from __future__ import annotations

from chimbuko.runtime.protocol.partition import MOST_PARTS


class PartKeys:
    """What is between agents, or dashboards, and one part of the parameter server."""

    def __init__(self, begin: str, part: int) -> None:
        end = f"-{part}" if part else ""
        self.deltas = f"{begin}deltas{end}"
        """Stream of ``Delta``, agents to server."""
        self.acks = f"{begin}acks{end}"
        """Hash: agent to an ``Acknowledgement``."""
        self.model_updates = f"{begin}model-updates{end}"
        """Stream of ``ModelUpdate``, server to agents."""
        self.model = f"{begin}model{end}"
        """Hash: number of a function to its row of the model, as a ``PackedTable`` of one row."""
        self.functions = f"{begin}functions{end}"
        """List of ``FunctionName``, in order of their numbers."""
        self.snapshot_wanted = f"{begin}snapshot-wanted{end}"
        """Key that a dashboard sets which came late, or was away."""
        self.snapshot = f"{begin}snapshot{end}"
        """Key with the answer: a ``Frame`` with all there is. Frames of a higher tick go on from there."""
        self.timers_wanted = f"{begin}timers-wanted{end}"
        """Key that somebody sets, anew each time, who wants to know what functions took on each rank,"""
        self.timers = f"{begin}timers{end}"
        """and the last answer, as ``RankTimers``; the server's last word is there, too."""


class RunKeys:
    """The keys of one run: several runs may share a broker.

    What stands in braces decides where in a cluster a key is: all of a run are together, since some change
    together.
    """

    def __init__(self, run_id: str) -> None:
        begin = f"{{chimbuko:{run_id}}}:"
        self._recall_answers = begin + "recall-answers:"
        self._parts = tuple(PartKeys(begin, part) for part in range(MOST_PARTS))
        self.records = begin + "records"
        """Stream of ``RecordBatch``, agents to store."""
        self.node_batches = begin + "node-batches"
        """Stream of ``NodeBatch``, agents to store, which removes what it has written; the oldest go where
        they are too many."""
        self.record_acks = begin + "record-acks"
        """Hash: stream key to the last batch sequence that is committed in the store."""
        self.statistics = begin + "statistics"
        """Stream of ``RunStatistics``, server to store, which removes what it has written."""
        self.wake = begin + "wake"
        """Stream of empty entries, anybody to server and store: somebody waits, so neither do they."""
        self.store_news = begin + "store-news"
        """Stream of lines for the user, anybody to services: what keeps records from being stored and when it
        ends, what there is no room for."""
        self.copy_wanted = begin + "copy-wanted"
        """Key that somebody on another node sets, anew each time, who wants to look into the store of a live
        run,"""
        self.copy_made = begin + "copy-made"
        """and the same, when a copy of it was made that all nodes see."""
        self.frames = begin + "frames"
        """Stream of ``Frame``, server to dashboards."""
        self.dashboard = begin + "dashboard"
        """Key with the address of the dashboard, without its token; ends in ``/``."""
        self.programs = begin + "programs"
        """Hash: program name to program index."""
        self.recall_requests = begin + "recall-requests"
        """Stream of ``RecallRequest``, anybody to agents."""
        self.waits_requests = begin + "waits-requests"
        """Stream of ``WaitsRequest``, store to agents; the oldest go where they are too many."""
        self.owners = begin + "rank-owners"
        """Hash: program and rank to the agent that reads its stream."""
        self.rivals = begin + "rank-rivals"
        """Hash: program and rank to an agent that found another stream of it, which is not read."""
        self.instances = begin + "instances"
        """Hash: program and number of an instance, from 1 on, to the rank in the run of what it takes for
        rank 0."""
        self.trace_ends = begin + "trace-ends"
        """Hash: number of an agent's share of recorded streams to its newest event in µs, once it is read."""
        self.roll_call = begin + "roll-call"
        """Hash: agent to its ``Answer``."""
        self.silent = begin + "silent"
        """Key with agents of which nothing is heard, services to server and store, as ``SilentAgents``."""
        self.metric_findings = begin + "metric-findings"
        """Key with all that was found in what programs publish of their computation, as ``Findings``, whoever
        watches that to store; it is set again now and then."""
        self.ending = begin + "ending"
        """There from the start of the services on; it says whether the run is to come to an end."""
        own = (key for name, key in vars(self).items() if not name.startswith("_"))
        self.all = (*own, *(key for part in self._parts for key in vars(part).values()))
        """Those that a run leaves behind, if nobody removes them."""

    def part(self, part: int) -> PartKeys:
        """Those of one part of the parameter server, counted from 0."""
        return self._parts[part]

    def recall_answers(self, request_id: str) -> str:
        """Key of the list of ``RecallAnswer`` to a request; a count of its bytes is beside it."""
        return self._recall_answers + request_id
