"""Analyses streams after the warm-up, and prints the kernels that had to be compiled or loaded for them.

Run: python -m tests.ad.streamprocess.after_warmup DETECTOR TRACE...
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from numba.core.dispatcher import Dispatcher

from chimbuko.ad.handoff.notifiers import AgentNotifier
from chimbuko.ad.handoff.processspecs import StreamProcessSpec
from chimbuko.ad.streamprocess.kernelwarmup import warm_kernels
from chimbuko.ad.streamprocess.process import StreamProcess
from chimbuko.capture.trace.discovery import Transport, parse_stream_path
from chimbuko.core.config import AnalysisConfig


def signatures() -> set[tuple[str, str]]:
    """Kernels that are loaded, by name and types of their arguments."""
    modules = [module for name, module in sys.modules.items() if name.startswith("chimbuko.")]
    kernels = {
        value for module in modules for value in vars(module).values() if isinstance(value, Dispatcher)
    }
    return {(kernel.py_func.__qualname__, str(types)) for kernel in kernels for types in kernel.overloads}


def analyse(stream: Path, config: AnalysisConfig, folder: Path) -> None:
    """Run the process of a stream in this one."""
    name = parse_stream_path(stream)
    assert name is not None
    files = {what: str(folder / what) for what in ("box", "spool", "names", "open_calls", "recorder")}
    spec = StreamProcessSpec(
        key=f"0:{name.rank}",
        path=str(stream),
        transport=Transport.RECORDED,
        program=0,
        rank=name.rank,
        node="node",
        config=config,
        **files,
    )
    StreamProcess(spec, AgentNotifier()).run()


def main() -> None:
    """Print one line for each kernel."""
    detector, *streams = sys.argv[1:]
    warm_kernels()
    warmed = signatures()
    for stream in streams:
        for metric in ("exclusive", "inclusive"):
            with TemporaryDirectory() as folder:
                config = AnalysisConfig(detector=detector, metric=metric)
                analyse(Path(stream), config, Path(folder))
    for kernel, types in sorted(signatures() - warmed):
        print(kernel, types)


if __name__ == "__main__":
    main()
