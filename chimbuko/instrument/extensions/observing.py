"""Observation of PyTorch in this process, from the moment when it is loaded, and of its iterations."""

from __future__ import annotations

import _thread
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import wraps
from time import perf_counter_ns
from types import CodeType, FrameType
from typing import Any

from chimbuko.instrument.extensions.loading import load, prepared, record_gpus
from chimbuko.instrument.hooks.codes import NOT_RECORDED
from chimbuko.instrument.hooks.functions import SKIPPED, is_of_others
from chimbuko.instrument.tracer.eventrecorder import Recorder

PREPARATION = "chimbuko.instrument.extensions.preparingtorch"
THREADS = "/proc/self/task"


def observe(recorder: Recorder) -> None:
    """Record what PyTorch does from now on, or say why not."""
    try:
        _Observer(recorder).begin()
    except (AttributeError, OSError, RuntimeError, ValueError, subprocess.SubprocessError) as error:
        recorder.describe_process(NOT_RECORDED, f"what PyTorch does: {error}")


def record_native(recorder: Recorder) -> None:
    """Record what a program does on GPUs by other packages, or say why not."""
    if recorder.rings:
        return
    try:
        library, folder = prepared(recorder.family.interpreter, PREPARATION, "{}")
        _load_native(recorder, library, folder)
    except (OSError, RuntimeError, ValueError, subprocess.SubprocessError) as error:
        recorder.describe_process(NOT_RECORDED, f"what runs on GPUs: {error}")


def _load_native(recorder: Recorder, library: str, folder: str) -> None:
    # A recorder that is there already, for mpi4py, takes these calls, too.
    if not recorder.rings:
        recorder.rings = folder
        load(library, folder)
        record_gpus(recorder, library)


class _Observer:
    def __init__(self, recorder: Recorder) -> None:
        import ctypes

        torch = sys.modules["torch"]
        build = {
            "folder": os.path.dirname(str(torch.__file__)),
            "version": str(torch.__version__),
            "abi": str(int(torch._C._GLIBCXX_USE_CXX11_ABI)),
        }
        native, folder, observer = prepared(recorder.family.interpreter, PREPARATION, json.dumps(build))
        _load_native(recorder, native, folder)
        self._ctypes = ctypes
        self._recorder = recorder
        self._library = ctypes.CDLL(observer)
        self._library.chimbuko_torch_waited.argtypes = (ctypes.c_int64,)
        self._torch = torch

    def begin(self) -> None:
        self._library.chimbuko_torch_begin()
        self._watch_backward(self._torch.autograd, self._torch.autograd.graph)
        optimisers = self._torch.optim.Optimizer
        Iterations(self._recorder).watch(self._torch.utils.data.dataloader._BaseDataLoaderIter, optimisers)
        if self._torch.distributed.is_available():
            self._watch_groups(self._torch.distributed.distributed_c10d)
            self._watch_waits(self._torch._C._distributed_c10d.Work)

    def _watch_backward(self, *modules: Any) -> None:
        """Note backward passes: what lies between their operators is a wait for other ranks."""
        run, note = modules[-1]._engine_run_backward, self._library.chimbuko_torch_backward

        @wraps(run)
        def run_and_note(*args: Any, **options: Any) -> Any:
            note(1)
            try:
                return run(*args, **options)
            finally:
                note(0)

        for module in modules:
            module._engine_run_backward = run_and_note

    def _watch_waits(self, work: Any) -> None:
        wait, waited = work.wait, self._library.chimbuko_torch_waited

        @wraps(wait)
        def wait_and_note(*args: Any, **options: Any) -> Any:
            begin_ns = perf_counter_ns()
            try:
                return wait(*args, **options)
            finally:
                waited(begin_ns)

        work.wait = wait_and_note

    def _watch_groups(self, c10d: Any) -> None:
        make = c10d._new_process_group_helper

        @wraps(make)
        def make_and_note(*args: Any, **options: Any) -> Any:
            before = os.listdir(THREADS)
            made = make(*args, **options)
            # Not by their names, which they have not given themselves yet.
            if threads := set(os.listdir(THREADS)).difference(before):
                self._note_group(made[0], args[2], threads)
            return made

        c10d._new_process_group_helper = make_and_note

    def _note_group(self, group: Any, ranks: list[int], threads: set[str]) -> None:
        import hashlib

        # The same on all members: no two groups have the same name.
        text = f"{group.group_name} {group.size()} {ranks}"
        identity = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") & ~1
        array = (self._ctypes.c_int * len(threads))(*map(int, threads))
        self._library.chimbuko_torch_group(
            self._ctypes.c_uint64(identity), group.size(), group.rank(), array, len(threads)
        )


NAME = "training step"


class Iterations:
    """Iterations of a training in the main thread, from the request for a batch to the end of the optimiser's
    step.

    Both have to come from one function. Where batches do not lead to a step, as in an evaluation, nothing is
    recorded; a further batch before the step is part of the iteration.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._code = recorder.timer_code(NAME)
        self._leading: set[tuple[CodeType, int]] = set()
        """Places that ask for batches which lead to a step."""
        self._asked: tuple[tuple[CodeType, int], int] | None = None
        """Where the batch was asked for: place, and depth of its function."""
        self._is_open = False

    def watch(self, loader: Any, optimiser: Any) -> None:
        """Watch the classes of the iterators of batches, and of optimisers."""
        following, hooked = loader.__next__, optimiser.profile_hook_step

        @wraps(following)
        def next_and_note(batches: Any) -> Any:
            self.ask(sys._getframe(1))
            try:
                return following(batches)
            except StopIteration:
                self.end()
                raise

        def hook(step: Callable[..., Any]) -> Callable[..., Any]:
            stepping = hooked(step)

            @wraps(stepping)
            def step_and_note(*args: Any, **options: Any) -> Any:
                result = stepping(*args, **options)
                self.step(sys._getframe(1))
                return result

            return step_and_note

        loader.__next__ = next_and_note
        optimiser.profile_hook_step = staticmethod(hook)

    def ask(self, frame: FrameType) -> None:
        """Note that a function asks for a batch."""
        if not self._is_recording():
            return
        function, depth = _function_of(frame)
        if self._is_open and self._asked is not None:
            (code, _), before = self._asked
            if code is function.f_code and before == depth:
                return
        place = function.f_code, function.f_lasti
        self._asked = place, depth
        self._is_open = place in self._leading
        if self._is_open:
            self._put(self._code)

    def step(self, frame: FrameType) -> None:
        """Note that an optimiser's step, which a function has called, has ended."""
        if not self._is_recording() or self._asked is None:
            return
        function, depth = _function_of(frame)
        place, before = self._asked
        if place[0] is function.f_code and before == depth:
            self._leading.add(place)
            self.end()
            self._asked = None

    def end(self) -> None:
        """End the iteration that is open, if any."""
        if self._is_open and self._is_recording():
            self._is_open = False
            self._put(self._code + 1)

    def _put(self, code: int) -> None:
        if self._code != SKIPPED:
            self._recorder.buffer().events.extend((code, perf_counter_ns()))

    def _is_recording(self) -> bool:
        return self._recorder.is_recording and _thread.get_ident() == threading.main_thread().ident


def _function_of(frame: FrameType) -> tuple[FrameType, int]:
    """Return the innermost function of the program on a stack, and its depth."""
    found, depth, at = frame, 0, frame.f_back
    is_found = not is_of_others(frame.f_code)
    while at is not None:
        depth += 1
        if not is_found and not is_of_others(at.f_code):
            found, depth, is_found = at, 0, True
        at = at.f_back
    return found, depth
