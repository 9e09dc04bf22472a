"""Provenance of single calls: the call stack, and the k calls before and after on the same thread.

A window may reach over steps. So three things outlive a step: the last k calls of each thread, the
neighbours of each call that is still open, and the records whose window has not filled yet.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from chimbuko.ad.detectors import Judgement
from chimbuko.ad.stepview import Neighbour, StepView, StreamIdentity
from chimbuko.config import AnalysisConfig
from chimbuko.records import RECORD_VERSION, CallRecord, CounterValue, Label, StackFrame, WindowCall


@dataclass
class OpenCall:
    """An open call and its neighbours, held until it ends and can be judged."""

    call: Neighbour
    thread: int
    before: list[Neighbour]
    after: list[Neighbour]


@dataclass
class Pending:
    """A record that is out already, but whose window has not filled."""

    record: CallRecord
    thread: int
    before: list[Neighbour]
    call: Neighbour
    after: list[Neighbour]
    stack: list[Neighbour]
    last_step: int
    """Final after this step, filled or not."""


class Windows:
    """Makes the records of one stream's selected calls.

    Call ``step`` once per step, after its calls are built and flagged.
    """

    def __init__(self, identity: StreamIdentity, config: AnalysisConfig) -> None:
        self._identity = identity
        self._config = config
        self._open: dict[str, OpenCall] = {}
        self._recent: dict[int, list[Neighbour]] = {}
        self._pending: list[Pending] = []
        self._node_state: dict[str, CounterValue] = {}

    def step(
        self,
        view: StepView,
        selected: dict[int, tuple[Label, Judgement]],
    ) -> list[CallRecord]:
        """Records that this step makes or completes.

        Parameters
        ----------
        selected
            Row of the call table to label and judgement, for the calls to record.
        """
        self._node_state |= {value.counter: value for value in view.watched()}
        self._update_open(view)
        records = self._fill_pending(view)
        view.prepare([*selected, *view.open_rows()])
        for row in sorted(selected):
            records.append(self._record(view, row, *selected[row]))
        self._hold_open(view)
        self._hold_recent(view)
        return records

    def finish(self) -> list[CallRecord]:
        """Final revisions of all records whose window did not fill; for the end of the stream."""
        records = [self._revise(pending) for pending in self._pending]
        self._pending.clear()
        return records

    def _update_open(self, view: StepView) -> None:
        """Bring neighbours that were open up to date."""
        for row in range(view.stacks.carried):
            held = self._open.get(view.id(row))
            if held is None:
                continue
            view.update(held.call, row)
            held.after.extend(view.after(held.thread, 0, self._config.window_calls - len(held.after)))

    def _fill_pending(self, view: StepView) -> list[CallRecord]:
        records = []
        still: list[Pending] = []
        for pending in self._pending:
            missing = self._config.window_calls - len(pending.after)
            pending.after.extend(view.after(pending.thread, 0, missing))
            if self._is_full(pending) or view.step.step >= pending.last_step:
                records.append(self._revise(pending))
            else:
                still.append(pending)
        self._pending = still
        return records

    def _is_full(self, pending: Pending) -> bool:
        return len(pending.after) == self._config.window_calls and all(
            neighbour.is_complete for neighbour in pending.after
        )

    def _record(self, view: StepView, row: int, label: Label, judgement: Judgement) -> CallRecord:
        """First revision of a call's record; kept pending unless its window is full already."""
        call = view.neighbour(row)
        table_row = view.stacks.call(row)
        thread = table_row.thread
        k = self._config.window_calls
        if row < view.stacks.carried:
            held = self._open[call.id]
            before, after = held.before, held.after
        else:
            position = view.position(row)
            before = view.before(thread, position, k, self._recent.get(thread, []))
            after = view.after(thread, position + 1, k)
        ancestors = [call, *(view.neighbour(parent) for parent in view.ancestors(row))]
        inclusive_us = call.exit_us - call.entry_us
        record = CallRecord(
            version=RECORD_VERSION,
            id=call.id,
            revision=1,
            is_final=False,
            label=label,
            program=self._identity.program,
            rank=self._identity.rank,
            thread=view.thread_id(thread),
            node=self._identity.node,
            function=call.function,
            entry_us=call.entry_us,
            exit_us=call.exit_us,
            inclusive_us=inclusive_us,
            exclusive_us=inclusive_us - table_row.child_us,
            step=view.step.step,
            step_start_us=view.start_us,
            step_end_us=view.end_us,
            score=judgement.score,
            severity_us=judgement.severity_us,
            expected_us=judgement.expected_us,
            spread_us=judgement.spread_us,
            seen=judgement.seen,
            detector=self._config.detector,
            incident_id="",
            depth=table_row.depth,
            children=table_row.children,
            messages_count=table_row.messages,
            call_stack=[],
            window=[],
            messages=[],
            counters=[],
            node_state=list(self._node_state.values()),
            left_out=0,
            metrics=[],
            is_gpu=False,
            launch_id="",
            launch_stack=[],
            model_version=0,
        )
        pending = Pending(
            record,
            thread,
            before,
            call,
            list(after),
            ancestors,
            view.step.step + self._config.final_after_steps,
        )
        is_final = self._is_full(pending)
        if not is_final:
            self._pending.append(pending)
        return self._with_window(pending, revision=1, is_final=is_final)

    def _revise(self, pending: Pending) -> CallRecord:
        return self._with_window(pending, revision=2, is_final=True)

    def _with_window(self, pending: Pending, revision: int, is_final: bool) -> CallRecord:
        members = [*pending.before, pending.call, *pending.after]
        messages = [message for member in members for message in member.messages]
        counters = [value for member in members for value in member.counters]
        most_messages, most_counters = self._config.max_messages, self._config.max_counters
        left_out = sum(member.left_out for member in members)
        left_out += max(len(messages) - most_messages, 0) + max(len(counters) - most_counters, 0)
        return msgspec.structs.replace(
            pending.record,
            revision=revision,
            is_final=is_final,
            call_stack=[
                StackFrame(n.id, n.function, n.entry_us, n.exit_us, n.is_anomaly) for n in pending.stack
            ],
            window=[
                WindowCall(
                    n.id,
                    n.function,
                    n.entry_us,
                    n.exit_us,
                    n.parent_id,
                    n.depth,
                    n.is_anomaly,
                )
                for n in members
            ],
            messages=messages[:most_messages],
            counters=counters[:most_counters],
            left_out=left_out,
        )

    def _hold_open(self, view: StepView) -> None:
        """Hold the neighbours of the calls that stay open; let go of those that ended."""
        still: dict[str, OpenCall] = {}
        for row in view.open_rows():
            held = self._open.get(view.id(row))
            if held is None:
                thread = view.stacks.call(row).thread
                position = view.position(row)
                k = self._config.window_calls
                before = view.before(thread, position, k, self._recent.get(thread, []))
                held = OpenCall(view.neighbour(row), thread, before, view.after(thread, position + 1, k))
            still[held.call.id] = held
        self._open = still

    def _hold_recent(self, view: StepView) -> None:
        k = self._config.window_calls
        for thread in view.active_threads():
            self._recent[thread] = view.before(thread, view.entered(thread), k, self._recent.get(thread, []))
