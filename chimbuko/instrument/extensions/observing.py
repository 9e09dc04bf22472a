"""Observation of PyTorch in this process, from the moment when it is loaded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import wraps
from time import perf_counter_ns
from typing import Any

from chimbuko.instrument.extensions.iterations import Iterations
from chimbuko.instrument.extensions.loading import load, prepared, record_gpus
from chimbuko.instrument.hooks.codes import NOT_RECORDED
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
