"""Records as Chimbuko's version 2 has them: what is exported for tools that read its JSON.

Ids there name no program (``rank:step:row``), since a record does. Of the counters that we keep for a
window it has only those of the call itself.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from chimbuko.core.arrays import Float64Array
from chimbuko.core.buckets import EDGES_US
from chimbuko.core.calls.record import CallRecord, CounterValue, Message, Metadata, StackFrame, WindowCall
from chimbuko.core.calls.recordarrays import UNKNOWN_THREAD
from chimbuko.core.statistics.moments import Moments
from chimbuko.core.statistics.schema import stored_columns
from chimbuko.runtime.protocol.messages import FunctionModel

Object = dict[str, Any]
VERSION = 2
ROOT = "root"
"""Id that stands for the parent of a call without one."""
NO_LAUNCH = "no launch of this call is known"
"""Text in place of the parent of a GPU call; readers take a text for the reason why there is none."""
GPU_KEYS = re.compile(r"(?:CUDA|ROCM) (Device|Context|Stream)", re.IGNORECASE)


@dataclass(frozen=True)
class Run:
    """Names and numbers of a run that its records refer to."""

    detector: str
    metric: str
    watched_counters: Sequence[str]
    """Prefixes of the names of watched counters."""
    counter_fields: Mapping[str, str]
    """Names of watched counters in the state of a node, where they have other ones there."""
    functions: Mapping[tuple[int, str], int]
    """Number of each function by (program, name)."""
    counters: Mapping[str, int]
    """Number of each counter by its name."""
    gpu_streams: Mapping[tuple[int, int, int], Object]
    """Device, context and stream of the GPU by (program, rank, thread)."""


def gpu_streams(metadata: Sequence[Metadata]) -> dict[tuple[int, int, int], Object]:
    """Return the threads that are streams of a GPU, by (program, rank, thread); what is not known is -1."""
    streams: dict[tuple[int, int, int], Object] = {}
    for item in metadata:
        match = GPU_KEYS.fullmatch(item.key)
        if match is None or not item.value.isdecimal():
            continue
        unknown = {"thread": item.thread, "device": -1, "context": -1, "stream": -1}
        stream = streams.setdefault((item.program, item.rank, item.thread), unknown)
        stream[match[1].lower()] = int(item.value)
    return streams


def record_object(call: CallRecord, number: int, run: Run, model: FunctionModel | None) -> Object:
    """Return the record of an abnormal call or a normal one.

    Parameters
    ----------
    number
        Number of the record among those of its kind.
    model
        Model of the function that judged the call, where it was kept.
    """
    place = {"pid": call.program, "rid": call.rank, "tid": call.thread}
    return {
        "version": VERSION,
        "__id": number,
        **place,
        "event_id": event_id(call.id),
        "fid": run.functions[call.program, call.function],
        "func": call.function,
        "entry": call.entry_us,
        "exit": call.exit_us,
        "runtime_total": call.inclusive_us,
        "runtime_exclusive": call.exclusive_us,
        "io_step": call.step,
        "io_step_tstart": call.step_start_us,
        "io_step_tend": call.step_end_us,
        "outlier_score": call.score,
        "outlier_severity": call.severity_us,
        "hostname": call.node,
        "call_stack": [_frame(call, frame, run) for frame in call.call_stack],
        "counter_events": [
            {**place, **_counter(value, run)} for value in call.counters if value.call_id == call.id
        ],
        "is_gpu_event": call.is_gpu,
        "gpu_location": run.gpu_streams.get((call.program, call.rank, call.thread)) if call.is_gpu else None,
        "gpu_parent": _gpu_parent(call, run) if call.is_gpu else None,
        "event_window": {
            "exec_window": [
                {**_frame(call, other, run), "parent_event_id": event_id(other.parent_id)}
                for other in call.window
            ],
            "comm_window": [{**place, **_message(message)} for message in call.messages],
        },
        "node_state": _node_state(call.node_state, run),
        "algo_params": None if model is None else algorithm_parameters(model, run),
    }


def metadata_object(item: Metadata, number: int) -> Object:
    """Return the record of one attribute of a stream."""
    return {
        "descr": item.key,
        "pid": item.program,
        "rid": item.rank,
        "tid": item.thread,
        "value": item.value,
        "__id": number,
    }


def event_id(identity: str) -> str:
    """Return the id of a call without its program."""
    return identity.partition(":")[2] or ROOT


def algorithm_parameters(model: FunctionModel, run: Run) -> Object:
    """Return the model of a function: ``RunStats`` of sstd, histograms of the others."""
    columns = stored_columns(run.detector, model.row)
    moments = Moments.from_row(columns[f"{run.metric}_us"])
    if "buckets" not in columns:
        return run_statistics(moments)
    return {
        "histogram": _histogram(columns["buckets"], moments),
        # Version 2 keeps a threshold here; ours is computed from the histogram each time.
        "internal_global_threshold": None,
    }


def runtime_profile(model: FunctionModel, run: Run) -> Object:
    """Return statistics of a function's runtimes."""
    columns = stored_columns(run.detector, model.row)
    return {
        f"{metric}_runtime": run_statistics(Moments.from_row(columns[f"{metric}_us"]))
        for metric in ("exclusive", "inclusive")
    }


def run_statistics(moments: Moments) -> Object:
    """Return moments as version 2's ``RunStats``."""
    return {
        "count": int(moments.n),
        "accumulate": moments.total,
        "minimum": moments.minimum,
        "maximum": moments.maximum,
        "mean": moments.mean,
        "stddev": moments.stddev,
        "skewness": moments.skewness,
        "kurtosis": moments.kurtosis,
    }


@dataclass
class AnomalyMetrics:
    """Sums over a function's abnormal calls."""

    per_step: Counter[tuple[int, int]] = field(default_factory=Counter)
    """Abnormal calls by rank and step, of steps that had any."""
    scores: list[float] = field(default_factory=list)
    severities_us: list[float] = field(default_factory=list)
    first_us: int = 1 << 63
    last_us: int = 0

    def add(self, call: CallRecord) -> None:
        """Add one abnormal call."""
        self.per_step[call.rank, call.step] += 1
        self.scores.append(call.score)
        self.severities_us.append(call.severity_us)
        self.first_us = min(self.first_us, call.step_start_us)
        self.last_us = max(self.last_us, call.step_end_us)

    def as_object(self) -> Object:
        """Return the sums as version 2 has them."""
        steps = [step for _, step in self.per_step]
        return {
            "anomaly_count": run_statistics(Moments.of(list(self.per_step.values()))),
            "first_io_step": min(steps),
            "last_io_step": max(steps),
            "min_timestamp": self.first_us,
            "max_timestamp": self.last_us,
            "score": run_statistics(Moments.of(self.scores)),
            "severity": run_statistics(Moments.of(self.severities_us)),
        }


def _frame(call: CallRecord, frame: StackFrame | WindowCall, run: Run) -> Object:
    return {
        "fid": run.functions[call.program, frame.function],
        "func": frame.function,
        "entry": frame.entry_us,
        "exit": frame.exit_us,
        "event_id": event_id(frame.id),
        "is_anomaly": frame.is_anomaly,
    }


def _counter(value: CounterValue, run: Run) -> Object:
    return {
        "ts": value.time_us,
        "counter_idx": run.counters[value.counter],
        "counter_name": value.counter,
        "counter_value": value.value,
    }


def _message(message: Message) -> Object:
    return {
        "type": message.kind,
        "src": message.source,
        "tar": message.destination,
        "bytes": message.size_bytes,
        "tag": message.tag,
        "timestamp": message.time_us,
        "execdata_key": event_id(message.call_id),
    }


def _gpu_parent(call: CallRecord, run: Run) -> Object | str:
    if not call.launch_id:
        return NO_LAUNCH
    return {
        "event_id": event_id(call.launch_id),
        "tid": None if call.launch_thread == UNKNOWN_THREAD else call.launch_thread,
        "call_stack": [_frame(call, frame, run) for frame in call.launch_stack],
    }


def _node_state(state: Sequence[CounterValue], run: Run) -> Object | None:
    if not state:
        return None
    return {
        "timestamp": max(value.time_us for value in state),
        "data": [{"field": _field(value.counter, run), "value": value.value} for value in state],
    }


def _field(counter: str, run: Run) -> str:
    """Return the name of a watched counter in the state of a node: the one that it was given there, or else
    its own without the prefix that marks it.
    """
    if counter in run.counter_fields:
        return run.counter_fields[counter]
    prefixes = (prefix for prefix in run.watched_counters if counter.startswith(prefix))
    return counter.removeprefix(next(prefixes, "")).strip() or counter


def _histogram(counts: Float64Array, moments: Moments) -> Object:
    """Return a histogram with all its edges, as our buckets widen with the runtime."""
    used = np.flatnonzero(counts)
    first, end = (int(used[0]), int(used[-1]) + 1) if len(used) else (0, 0)
    return {
        "Bin Counts": counts[first:end].tolist(),
        "Bin Edges": EDGES_US[first : end + 1].tolist(),
        "Min": moments.minimum,
        "Max": moments.maximum,
    }
