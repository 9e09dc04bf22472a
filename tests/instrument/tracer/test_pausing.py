"""Generators and coroutines by turns: whoever uses one notices nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.instrument.tracer.pausing import by_turns, pauses

WORDS = st.lists(st.sampled_from(["next", "send", "throw", "other", "close"]), max_size=8)


def talk(log: list[Any]) -> Generator[int, Any, str]:
    """Answers what it is asked; a ``KeyError`` it bears, others it does not."""
    for number in range(5):
        try:
            log.append((yield number))
        except KeyError as error:
            log.append(repr(error))
        finally:
            log.append("turn")
    return "over"


async def async_talk(log: list[Any]) -> AsyncGenerator[int, Any]:
    for number in range(5):
        await asyncio.sleep(0)
        try:
            log.append((yield number))
        except KeyError as error:
            log.append(repr(error))
        finally:
            log.append("turn")


def conversation(made: Generator[Any, Any, Any], words: list[str]) -> list[Any]:
    """What a generator gives to each of these."""
    steps: dict[str, Callable[[], Any]] = {
        "next": lambda: next(made),
        "send": lambda: made.send("something"),
        "throw": lambda: made.throw(KeyError("k")),
        "other": lambda: made.throw(ValueError("v")),
        "close": made.close,
    }
    return [outcome(steps[word]) for word in words]


def outcome(step: Callable[[], Any]) -> Any:
    try:
        return step()
    except (StopIteration, ValueError, KeyError, TypeError) as error:
        return type(error).__name__, getattr(error, "value", None) or str(error)


@given(words=WORDS)
def test_a_generator_is_as_it_was(words: list[str]) -> None:
    found = []
    for function in (talk, by_turns(talk, counted([]))):
        log: list[Any] = []
        found.append((conversation(function(log), words), log))
    assert found[0] == found[1]


@given(words=WORDS)
def test_an_asynchronous_generator_is_as_it_was(words: list[str]) -> None:
    async def hold(made: AsyncGenerator[int, Any]) -> list[Any]:
        steps: dict[str, Callable[[], Awaitable[Any]]] = {
            "next": lambda: anext(made),
            "send": lambda: made.asend("something"),
            "throw": lambda: made.athrow(KeyError("k")),
            "other": lambda: made.athrow(ValueError("v")),
            "close": made.aclose,
        }
        heard: list[Any] = []
        for word in words:
            try:
                heard.append(await steps[word]())
            except (StopAsyncIteration, ValueError, KeyError, TypeError) as error:
                heard.append((type(error).__name__, str(error)))
        await made.aclose()
        return heard

    found = []
    for function in (async_talk, by_turns(async_talk, counted([]))):
        log: list[Any] = []
        found.append((run(hold(function(log))), log))
    assert found[0] == found[1]


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run it in a thread of its own, as that of the tests has a loop already once Playwright was there."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()


def counted(turns: list[str]) -> Callable[[], Any]:
    @contextmanager
    def turn() -> Iterator[None]:
        turns.append("begun")
        try:
            yield
        finally:
            turns.append("ended")

    return turn


def test_each_turn_has_a_context_or_all_have_one() -> None:
    turns: list[str] = []
    assert [*by_turns(talk, counted(turns))([])] == [0, 1, 2, 3, 4]
    assert turns == 6 * ["begun", "ended"]
    turns.clear()
    assert [*by_turns(talk, counted(turns), is_whole=True)([])] == [0, 1, 2, 3, 4]
    assert turns == ["begun", "ended"]


def test_a_coroutine_can_be_cancelled() -> None:
    turns: list[str] = []

    async def wait() -> None:
        await asyncio.sleep(60)

    async def cancel() -> None:
        task = asyncio.create_task(by_turns(wait, counted(turns))())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(cancel())
    assert turns == 2 * ["begun", "ended"]


def test_what_pauses() -> None:
    assert pauses(talk) and pauses(async_talk) and not pauses(outcome) and not pauses(len)
