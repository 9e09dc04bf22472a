"""Iterations of a training are found by what asks for batches, and what steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from chimbuko.instrument.extensions.observing import Iterations
from chimbuko.instrument.hooks import functions

ENTRY = 6


class Recorder:
    """Keeps the codes of events, without their times."""

    def __init__(self) -> None:
        self.is_recording = True
        self.events: list[int] = []

    def timer_code(self, name: str) -> int:
        assert name == "training step"
        return ENTRY

    def buffer(self) -> Recorder:
        return self

    @property
    def codes(self) -> str:
        return "".join("()"[code - ENTRY] for code in self.events[::2])


class Optimiser:
    """Wraps its steps as PyTorch does."""

    @staticmethod
    def profile_hook_step(step: Callable[..., Any]) -> Callable[..., Any]:
        return step


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> tuple[Recorder, type, Callable[[], None]]:
    # This file lies beside the packages of others in some installations.
    monkeypatch.setattr(functions, "_OTHERS_FOLDERS", ())
    recorder = Recorder()

    class Batches:
        def __init__(self, count: int) -> None:
            self._left = count

        def __iter__(self) -> Iterator[int]:
            return self

        def __next__(self) -> int:
            if self._left == 0:
                raise StopIteration
            self._left -= 1
            return self._left

    class Own(Optimiser):
        pass

    known: Any = recorder
    Iterations(known).watch(Batches, Own)
    return recorder, Batches, Own.profile_hook_step(lambda: None)


def test_an_iteration_lasts_from_its_batch_to_the_step(watched: Any) -> None:
    recorder, batches, step = watched
    for _ in batches(3):
        step()
    # The first one shows that batches lead to steps here; behind the last one there is no batch.
    assert recorder.codes == "()()()"


def test_further_batches_before_a_step_are_part_of_it(watched: Any) -> None:
    recorder, batches, step = watched
    for number in batches(6):
        if number % 2 == 0:
            step()
    assert recorder.codes == "()()()"


def test_batches_that_lead_to_no_step_are_none(watched: Any) -> None:
    recorder, batches, step = watched

    def evaluate() -> None:
        for _ in batches(5):
            pass

    for _ in batches(2):
        step()
        evaluate()
    assert recorder.codes == "()()"


def test_a_step_of_another_function_ends_nothing(watched: Any) -> None:
    recorder, batches, step = watched

    def own_step() -> None:
        step()

    for _ in batches(3):
        own_step()
    assert recorder.codes == ""
