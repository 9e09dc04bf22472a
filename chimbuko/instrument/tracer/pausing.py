"""Generators and coroutines as calls that nest: each turn, from a resumption to the next pause, is one."""

from __future__ import annotations

import functools
import types

from chimbuko.instrument.hooks.turns import ASYNC_GENERATOR, COROUTINE, GENERATOR

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator
    from contextlib import AbstractContextManager
    from typing import Any

    Turn = Callable[[], AbstractContextManager[Any]]


class _Nothing:
    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...


def pauses(function: Callable[..., Any]) -> bool:
    """Whether a function is a generator, a coroutine, or both, so that its calls pause and go on."""
    code = getattr(function, "__code__", None)
    return code is not None and bool(code.co_flags & (GENERATOR | COROUTINE | ASYNC_GENERATOR))


def by_turns(function: Callable[..., Any], turn: Turn, is_whole: bool = False) -> Callable[..., Any]:
    """Return the function, a generator or a coroutine, with each of its turns in a context of its own.

    Parameters
    ----------
    turn
        Function that makes a context.
    is_whole
        Whether one context spans the whole call, pauses included, in place of one for each turn.
    """
    whole, each = (turn, _Nothing) if is_whole else (_Nothing, turn)
    flags = function.__code__.co_flags

    @functools.wraps(function)
    def generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        with whole():
            return (yield from _driven(function(*args, **kwargs), each))

    @functools.wraps(function)
    async def coroutine(*args: Any, **kwargs: Any) -> Any:
        with whole():
            return await _awaited(function(*args, **kwargs), each)

    @functools.wraps(function)
    async def async_generator(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        inner = function(*args, **kwargs)
        with whole():
            step = inner.asend(None)
            while True:
                try:
                    item = await _awaited(step, each)
                except StopAsyncIteration:
                    return
                try:
                    step = inner.asend((yield item))
                except GeneratorExit:
                    await _awaited(inner.aclose(), each)
                    raise
                except BaseException as error:
                    step = inner.athrow(error)

    if flags & GENERATOR:
        return generator
    return async_generator if flags & ASYNC_GENERATOR else coroutine


def _driven(inner: Any, turn: Turn) -> Generator[Any, Any, Any]:
    """Do what ``yield from inner`` does (PEP 380), with a context around each turn."""
    resume, value = inner.send, None
    while True:
        try:
            with turn():
                given = resume(value)
        except StopIteration as end:
            return end.value
        try:
            value = yield given
            resume = inner.send
        except GeneratorExit:
            with turn():
                inner.close()
            raise
        except BaseException as error:
            resume, value = inner.throw, error


_awaited: Any = types.coroutine(_driven)
