"""Numbers of messages on their channels, against what MPI's rules of matching give."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.ad.calls import channels as module
from chimbuko.ad.calls.channels import Channels, landmarks
from chimbuko.ad.kernels.stack import CALL
from chimbuko.core.arrays import as_table
from chimbuko.core.traceschema import COLLECTIVE_TYPE, NO_PEER, EventType, Operation, StreamNames, TraceStep
from tests.plainpython import examples

EXAMPLES = examples(150)
RANK, START_US = 3, 1_000
COMMUNICATORS = (7 << 32 | 1, 9 << 32 | 1)
"""As the recorder gives them; records have their upper half."""
NAMES = StreamNames()

Channel = tuple[int, int, int]
"""Communicator, source and tag."""
channels = st.tuples(st.sampled_from(COMMUNICATORS), st.integers(0, 2), st.integers(0, 1))


@dataclass
class Receive:
    communicator: int
    source: int
    tag: int
    request: int
    message: tuple[Channel, int] | None = None

    def takes(self, channel: Channel) -> bool:
        communicator, source, tag = channel
        return (
            self.communicator == communicator
            and self.source in (source, NO_PEER)
            and self.tag in (tag, NO_PEER)
        )


@dataclass
class NaiveRank:
    """A rank that receives by MPI's rules, and records what our recorder would."""

    sent: dict[Channel, int] = field(default_factory=dict)
    arrived: list[tuple[Channel, int]] = field(default_factory=list)
    posted: list[Receive] = field(default_factory=list)
    comms: list[list[int]] = field(default_factory=list)
    details: list[list[int]] = field(default_factory=list)
    operations: list[list[int]] = field(default_factory=list)
    truth: list[int] = field(default_factory=list)
    requests: int = 0
    now_us: int = START_US

    def arrive(self, channel: Channel) -> None:
        self.sent[channel] = self.sent.get(channel, 0) + 1
        message = channel, self.sent[channel]
        for receive in self.posted:
            if receive.message is None and receive.takes(channel):
                receive.message = message
                return
        self.arrived.append(message)

    def post(self, channel: Channel, is_any_source: bool, is_any_tag: bool) -> None:
        communicator, source, tag = channel
        self.requests += 1
        receive = Receive(
            communicator, NO_PEER if is_any_source else source, NO_PEER if is_any_tag else tag, self.requests
        )
        receive.message = self._take(receive)
        self.posted.append(receive)
        row = [0, RANK, 0, Operation.RECEIVE_POSTED, communicator, receive.source, receive.tag, 0]
        self.operations.append([*row, self.requests, self.now_us])

    def complete(self, at: int) -> None:
        done = [receive for receive in self.posted if receive.message is not None]
        if done:
            receive = done[at % len(done)]
            self.posted.remove(receive)
            assert receive.message is not None
            self._record(*receive.message, receive.request)

    def receive(self, channel: Channel, is_any_source: bool) -> None:
        communicator, source, tag = channel
        found = self._take(Receive(communicator, NO_PEER if is_any_source else source, tag, 0))
        if found is not None:
            self._record(*found, 0)

    def step(self, number: int = 0) -> TraceStep:
        return TraceStep(
            number,
            np.empty((0, 6), np.uint64),
            np.array(self.comms, np.uint64).reshape(-1, 8),
            np.empty((0, 6), np.uint64),
            np.array(self.details, np.uint64).reshape(-1, 2),
            np.array(self.operations, np.uint64).reshape(-1, 10),
        )

    def _take(self, receive: Receive) -> tuple[Channel, int] | None:
        found = next((message for message in self.arrived if receive.takes(message[0])), None)
        if found is not None:
            self.arrived.remove(found)
        return found

    def _record(self, channel: Channel, number: int, request: int) -> None:
        communicator, source, tag = channel
        self.comms.append([0, RANK, 0, EventType.RECV, tag, source, 8, self.now_us])
        self.details.append([communicator, request])
        self.truth.append(number)


def played(actions: list[tuple[str, Channel, bool, bool, int]], has_wildcards: bool) -> NaiveRank:
    rank = NaiveRank()
    for action, channel, is_any_source, is_any_tag, at in actions:
        rank.now_us += 1
        if action == "arrive":
            rank.arrive(channel)
        elif action == "post":
            rank.post(channel, is_any_source and has_wildcards, is_any_tag and has_wildcards)
        elif action == "complete":
            rank.complete(at)
        else:
            rank.receive(channel, is_any_source and has_wildcards)
    return rank


actions = st.lists(
    st.tuples(
        st.sampled_from(("arrive", "arrive", "post", "complete", "receive")),
        channels,
        st.booleans(),
        st.booleans(),
        st.integers(0, 9),
    ),
    max_size=80,
)


@EXAMPLES
@given(actions)
def test_receives_from_known_ranks_have_the_numbers_of_their_sends(
    done: list[tuple[str, Channel, bool, bool, int]],
) -> None:
    rank = played(done, has_wildcards=False)
    _, notes = Channels().read(rank.step(), NAMES)
    assert notes[:, 1].tolist() == rank.truth
    assert notes[:, 0].tolist() == [communicator >> 32 for communicator, _ in rank.details]


@EXAMPLES
@given(actions)
def test_beside_wildcards_a_number_is_right_or_missing(
    done: list[tuple[str, Channel, bool, bool, int]],
) -> None:
    rank = played(done, has_wildcards=True)
    _, notes = Channels().read(rank.step(), NAMES)
    assert all(number in (0, truth) for number, truth in zip(notes[:, 1].tolist(), rank.truth, strict=True))


def test_a_receive_that_waits_for_any_rank_has_its_number() -> None:
    channel = (COMMUNICATORS[0], 1, 0)
    rank = played([("arrive", channel, False, False, 0), ("receive", channel, True, False, 0)] * 3, True)
    _, notes = Channels().read(rank.step(), NAMES)
    assert notes[:, 1].tolist() == [1, 2, 3]


@EXAMPLES
@given(st.lists(st.tuples(st.sampled_from((EventType.SEND, EventType.RECV)), channels), max_size=300))
def test_without_details_messages_are_counted_in_order(made: list[tuple[EventType, Channel]]) -> None:
    rows = [[0, RANK, 0, kind, tag, peer, 8, START_US] for kind, (_, peer, tag) in made]
    counted = Channels()
    numbers: list[int] = []
    for number in range(0, len(rows), 50):
        comms = np.array(rows[number : number + 50], np.uint64)
        step = TraceStep(number // 50, np.empty((0, 6), np.uint64), comms, np.empty((0, 6), np.uint64))
        _, notes = counted.read(step, NAMES)
        numbers += notes[:, 1].tolist()
        # A process that dies goes on like this.
        counted = pickle.loads(pickle.dumps(counted))
    keys = [(row[3], row[4], row[5]) for row in rows]
    assert numbers == [keys[: at + 1].count(key) for at, key in enumerate(keys)]


@pytest.mark.compiled
def test_many_channels_get_room_and_too_many_no_number() -> None:
    def step(number: int, partners: range) -> TraceStep:
        rows = [[0, RANK, 0, EventType.SEND, 0, partner, 8, START_US] for partner in partners]
        none = np.empty((0, 6), np.uint64)
        return TraceStep(number, none, np.array(rows, np.uint64), none)

    counted = Channels()
    most = module.MOST_CHANNELS // 2
    first, second = (counted.read(step(number, range(most + 10)), NAMES)[1][:, 1] for number in (0, 1))
    assert set(first[:most].tolist()) == {1} and set(second[:most].tolist()) == {2}
    assert not first[most + 1 :].any() and not second[most + 1 :].any()


def test_behind_a_lost_step_no_message_has_a_number() -> None:
    channel = (COMMUNICATORS[0], 1, 0)
    counted = Channels()
    rank = played([("arrive", channel, False, False, 0), ("receive", channel, False, False, 0)] * 2, False)
    assert [counted.read(rank.step(number), NAMES)[1][:, 1].tolist() for number in (0, 2, 3)] == [
        [1, 2],
        [0, 0],
        [0, 0],
    ]


def test_details_that_do_not_fit_are_passed_over() -> None:
    channel = (COMMUNICATORS[0], 1, 0)
    rank = played([("arrive", channel, False, False, 0), ("receive", channel, False, False, 0)] * 2, False)
    rank.details.pop()
    _, notes = Channels().read(rank.step(), NAMES)
    assert notes.tolist() == [[0, 1], [0, 2]]


def test_collective_operations_stand_among_the_messages() -> None:
    rank = NaiveRank()
    rank.now_us = START_US + 5
    rank.arrive((COMMUNICATORS[0], 1, 0))
    rank.receive((COMMUNICATORS[0], 1, 0), is_any_source=False)
    for number, root, time_us in ((4, 2, START_US), (5, NO_PEER, START_US + 9)):
        row = [0, RANK, 0, Operation.COLLECTIVE, COMMUNICATORS[1], root, number, 64, 0, time_us]
        rank.operations.append(row)
    step, notes = Channels().read(rank.step(), NAMES)
    assert notes.tolist() == [[9, 5], [7, 1], [9, 6]]
    assert step.comms[:, 5].tolist() == [2, 1, RANK]
    assert (step.comms[:, 3] == COLLECTIVE_TYPE).tolist() == [True, False, True]


def test_both_ends_of_a_message_are_landmarks_or_neither() -> None:
    numbers = np.array([1, 8, 15, 16, 17, 0, 32, 48, 64, 128], np.uint32)
    notes = np.stack([np.zeros_like(numbers), numbers], axis=1)
    calls = as_table(np.zeros(10, CALL))
    calls["exit"] = START_US
    own = np.arange(10, dtype=np.int32)
    assert landmarks(notes, own, calls).tolist() == [3, 6, 8, 9]
    # Outside of calls, in a call that is open, and in one that is not certain.
    own[3], calls["exit"][6], calls["doubts"][8] = -1, 0, 1
    assert landmarks(notes, own, calls).tolist() == [9]
    assert landmarks(notes, np.full(10, 9, np.int32), calls).tolist() == [9]
    # Not in the order of their calls, and two in the same.
    assert landmarks(notes, np.arange(10, dtype=np.int32)[::-1] // 2, calls).tolist() == [0, 1, 3]
    many = np.full((100, 2), module.FIRST_LANDMARK, np.uint32)
    ended = as_table(np.ones(100, CALL))
    ended["doubts"] = 0
    # Of many the first ones, whatever the order of their messages.
    own = np.random.default_rng(1).permutation(100).astype(np.int32)
    assert landmarks(many, own, ended).tolist() == list(range(module.MOST_LANDMARKS))
