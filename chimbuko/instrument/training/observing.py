"""Observation of PyTorch in this process, from the moment when it is loaded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import wraps
from time import perf_counter_ns
from typing import Any

from chimbuko.instrument.hooks.codes import NOT_RECORDED
from chimbuko.instrument.pythonmpi.loading import load, prepared
from chimbuko.instrument.tracer.eventrecorder import Recorder

PREPARATION = "chimbuko.instrument.training.preparing"
GLOO_THREAD = "pt_gloo_runloop"
"""Name that PyTorch gives to threads which run the collective operations of a group."""


def observe(recorder: Recorder) -> None:
    """Record what PyTorch does from now on, or say why not."""
    try:
        _Observer(recorder).begin()
    except (AttributeError, OSError, RuntimeError, ValueError, subprocess.SubprocessError) as error:
        recorder.describe_process(NOT_RECORDED, f"what PyTorch does: {error}")


class _Observer:
    def __init__(self, recorder: Recorder) -> None:
        import ctypes

        torch = sys.modules["torch"]
        build = {
            "folder": os.path.dirname(str(torch.__file__)),
            "version": str(torch.__version__),
            "abi": str(int(torch._C._GLIBCXX_USE_CXX11_ABI)),
        }
        native, observer, folder = prepared(recorder.family.interpreter, PREPARATION, json.dumps(build))
        # A recorder that is there already, for mpi4py, takes these calls, too.
        if not recorder.rings:
            recorder.rings = folder
            load(native, folder)
        self._ctypes = ctypes
        self._library = ctypes.CDLL(observer)
        self._library.chimbuko_torch_waited.argtypes = ctypes.c_int64, ctypes.c_int
        self._library.chimbuko_torch_waited.restype = None
        self._torch = torch

    def begin(self) -> None:
        self._library.chimbuko_torch_begin()
        self._watch_backward(self._torch.autograd, self._torch.autograd.graph)
        if self._torch.distributed.is_available():
            self._watch_groups(self._torch.distributed.distributed_c10d)
            self._watch_waits(self._torch._C._distributed_c10d.Work)

    def _watch_backward(self, *modules: Any) -> None:
        """Note the end of backward passes: what comes behind the last operator is a wait for other ranks."""
        run, waited = modules[-1]._engine_run_backward, self._library.chimbuko_torch_waited

        @wraps(run)
        def run_and_note(*args: Any, **options: Any) -> Any:
            begin_ns = perf_counter_ns()
            try:
                return run(*args, **options)
            finally:
                waited(begin_ns, 1)

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
                waited(begin_ns, 0)

        work.wait = wait_and_note

    def _watch_groups(self, c10d: Any) -> None:
        make = c10d._new_process_group_helper

        @wraps(make)
        def make_and_note(*args: Any, **options: Any) -> Any:
            before = _gloo_threads()
            made = make(*args, **options)
            if threads := _gloo_threads() - before:
                self._note_group(made[0], args[2], threads)
            return made

        c10d._new_process_group_helper = make_and_note

    def _note_group(self, group: Any, ranks: list[int], threads: set[int]) -> None:
        import hashlib

        # The same on all members: no two groups have the same name.
        text = f"{group.group_name} {group.size()} {ranks}"
        identity = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") & ~1
        array = (self._ctypes.c_int * len(threads))(*threads)
        self._library.chimbuko_torch_group(
            self._ctypes.c_uint64(identity), group.size(), group.rank(), array, len(threads)
        )


def _gloo_threads() -> set[int]:
    found = set()
    for thread in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{thread}/comm") as file:
                if file.read().strip() == GLOO_THREAD:
                    found.add(int(thread))
        except OSError:
            # It has just ended.
            continue
    return found
