"""Work on GPUs is recorded, with a CUDA that is none: see ``fakecuda/fakecuda.c``."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from chimbuko.ad.calls.launches import CORRELATION_ID
from chimbuko.core.traceschema import NOT_RECORDED, EventType
from chimbuko.instrument.recorder.library import FOLDER
from tests.instrument.recorder.streams import record

SOURCES = Path(__file__).parent / "fakecuda"
WHEELS = {
    12: ("nvidia-cuda-cupti-cu12==12.9.79", "nvidia-cuda-runtime-cu12==12.9.79", "nvidia-cuda-crt==13.5.37"),
    13: ("nvidia-cuda-cupti==13.5.25", "nvidia-cuda-runtime==13.5.37", "nvidia-cuda-crt==13.5.37"),
}
NVTX = "nvidia-nvtx==13.5.25"
"""Packages with NVIDIA's headers, by version of CUDA."""
STRUCTURES = {
    12: {"KERNEL": "Kernel9", "MEMCPY": "Memcpy6", "MEMSET": "Memset4"},
    13: {"KERNEL": "Kernel13", "MEMCPY": "Memcpy7", "MEMSET": "Memset5"},
}
"""Structures of what CUPTI reports."""
OLDER_KERNELS = {12: (7, 8, 9), 13: (9, 10, 11, 12, 13)}
STEPS = 20
SIZES = [f"heat::relax<float> <<<({blocks},1,1), (256,1,1)>>>" for blocks in (64, 512)]


@pytest.fixture(scope="module", params=sorted(WHEELS))
def flags(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Flags of the compiler for the headers of a version of CUDA."""
    folder = tmp_path_factory.mktemp("headers")
    includes = headers(folder, f"CUDA {request.param}", *WHEELS[request.param])
    found = [f"-D{name}=CUpti_Activity{structure}" for name, structure in STRUCTURES[request.param].items()]
    return [f"-DCUDA={request.param}", *found, *includes]


def headers(folder: Path, what: str, *wheels: str) -> list[str]:
    """Flags of the compiler for the headers in wheels."""
    words = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder), *wheels]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no headers of {what}: {done.stderr.strip().splitlines()[-1]}")
    found = []
    for wheel in folder.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(
                folder / wheel.stem, [name for name in archive.namelist() if "/include/" in name]
            )
        found += [f"-I{include}" for include in (folder / wheel.stem).glob("nvidia/*/include")]
    return found


@pytest.fixture(scope="module")
def app(flags: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that computes on the GPU that is none."""
    folder = tmp_path_factory.mktemp("app")
    name = f"libcupti.so.{flags[0].removeprefix('-DCUDA=')}"
    cupti, program = folder / name, folder / "app"
    compiled("-shared", "-fPIC", f"-Wl,-soname,{name}", *flags, SOURCES / "fakecuda.c", "-o", cupti)
    # C++ is loaded, as in programs of CUDA, which reads the names of kernels.
    linked = (cupti, f"-Wl,-rpath,{folder}", "-Wl,--no-as-needed", "-lstdc++")
    compiled(SOURCES / "app.c", *linked, "-o", program)
    return program


def compiled(*words: str | Path) -> None:
    done = subprocess.run(["cc", "-Wall", "-Werror", *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_structures_are_those_of_nvidia(flags: list[str], tmp_path: Path) -> None:
    kernels = OLDER_KERNELS[int(flags[0].removeprefix("-DCUDA="))]
    same = {
        **{f"CUpti_ActivityKernel{version}": "kernel" for version in kernels},
        "MEMCPY": "copy",
        "MEMSET": "copy",
        "CUpti_CallbackData": "call",
    }
    fields = {
        "kernel": {
            **{"begin": "start", "end": "end", "device": "deviceId", "stream": "streamId", "name": "name"},
            **{"grid[0]": "gridX", "grid[3]": "blockX", "grid[5]": "blockZ", "correlation": "correlationId"},
        },
        "copy": {
            **{"bytes": "bytes", "begin": "start", "end": "end", "device": "deviceId", "stream": "streamId"},
            "correlation": "correlationId",
        },
        "call": {"site": "callbackSite", "function": "functionName", "correlation": "correlationId"},
    }
    lines = [
        f"_Static_assert(offsetof(struct {ours}, {own}) == offsetof({theirs}, {field}), '{theirs}.{field}');"
        for theirs, ours in same.items()
        for own, field in fields[ours].items()
    ]
    values = {
        **{"COPIED": "CUPTI_ACTIVITY_KIND_MEMCPY", "SET": "CUPTI_ACTIVITY_KIND_MEMSET"},
        **{"RAN": "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL", "ENTERS": "CUPTI_API_ENTER"},
        **{"RUNTIME": "CUPTI_CB_DOMAIN_RUNTIME_API", "DRIVER": "CUPTI_CB_DOMAIN_DRIVER_API"},
        "TAKEN_BY_ANOTHER": "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED",
    }
    lines += [f"_Static_assert({own} == {theirs}, '{own}');" for own, theirs in values.items()]
    heads = ["stddef.h", "cupti.h", "cupti_activity_deprecated.h", "cuda.c"]
    source = tmp_path / "same.c"
    source.write_text("".join(f'#include "{head}"\n' for head in heads) + "\n".join(lines).replace("'", '"'))
    compiled("-Wno-enum-compare", f"-I{FOLDER}", *flags, "-c", source, "-o", tmp_path / "same.o")


def test_work_on_a_gpu_is_a_call_of_its_queue(app: Path, tmp_path: Path) -> None:
    (stream,) = record(tmp_path, [app, str(STEPS)])
    assert stream.metadata(NOT_RECORDED) == ""
    assert stream.calls(thread=1) == {"Memcpy HtoD": STEPS, **dict.fromkeys(SIZES, STEPS)}
    assert stream.calls(thread=2) == {"Memset": STEPS}
    described = {key[1:]: value for key, value in stream.names.metadata.items() if key[1]}
    assert described[1, "CUDA Device"] == "0" and described[1, "CUDA Stream"] == "7"
    called = stream.calls(thread=0)
    assert called["cudaLaunchKernel"] == 2 * STEPS
    assert called["cudaMemcpyAsync"] == called["cudaStreamSynchronize"] == called["cudaMemsetAsync"] == STEPS
    # Each piece of work has the number of one call that launched it, and begins after that.
    (number,) = (number for number, name in stream.names.counters.items() if name == CORRELATION_ID)
    rows = stream.counters[stream.counters[:, 3] == number].astype(np.int64)
    launched = {row[4]: row[5] for row in rows[rows[:, 2] == 0].tolist()}
    worked = {row[4]: row[5] for row in rows[rows[:, 2] > 0].tolist()}
    assert len(worked) == 4 * STEPS and worked.keys() <= launched.keys()
    # The fake's clock is 5 s ahead of ours.
    assert all(launched[one] - 1000 <= worked[one] <= launched[one] + 1_000_000 for one in worked)


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("FAKE_CUPTI_VERSION", "140000", "version 140000 of CUPTI is not known"),
        ("FAKE_CUPTI_TAKEN", "1", "CUPTI is in use by another profiler of this program"),
    ],
)
def test_gpus_that_are_not_seen_are_said(
    app: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, said: str
) -> None:
    monkeypatch.setenv(variable, value)
    (stream,) = record(tmp_path, [app, "2"])
    assert f"what runs on GPUs: CUDA: {said}" in stream.metadata(NOT_RECORDED)
    assert set(stream.calls()) == {".TAU application"}


PYTHON_PROGRAM = f"""
import cupy

def step(number):
    cupy.cuda.fake_launch(0, b"_ZN4heat5relaxIfEEvPT_i", 64, 1_000_000)
    cupy.cuda.fake_synchronize(0)

cupy.cuda.fake_begin()
for number in range({STEPS}):
    step(number)
"""


def test_work_that_python_gives_to_a_gpu_stands_beside_its_calls(app: Path, tmp_path: Path) -> None:
    (library,) = app.parent.glob("libcupti.so.*")
    # Whatever is called so: the recorder comes before CUDA.
    lines = ["import ctypes", f"cuda = ctypes.CDLL({str(library)!r}, ctypes.RTLD_GLOBAL)"]
    lines += ["cuda.fake_launch.argtypes = (ctypes.c_uint, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint64)"]
    (tmp_path / "cupy.py").write_text("\n".join(lines))
    (tmp_path / "program.py").write_text(PYTHON_PROGRAM)
    (stream,) = record(tmp_path, [tmp_path / "program.py"])
    assert stream.metadata(NOT_RECORDED) == ""
    found = stream.nesting()
    assert found["step", "cudaLaunchKernel"] == found["step", "cudaStreamSynchronize"] == STEPS
    (queue,) = {key[1] for key in stream.names.metadata if key[2] == "CUDA Stream"}
    assert sum(stream.calls(thread=queue).values()) == STEPS


def test_another_profiler_that_cuda_is_to_load_comes_first(app: Path, tmp_path: Path) -> None:
    (stream,) = record(tmp_path, [app, "2"], CUDA_INJECTION64_PATH=os.devnull)
    assert set(stream.calls()) == {".TAU application"}
    begun = stream.events[stream.events[:, 3] == EventType.ENTRY]
    assert len(begun) == 1


NVTX_PROGRAM = """
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>

int main(void)
{
    nvtxDomainHandle_t domain = nvtxDomainCreateA("own");
    nvtxEventAttributes_t named = {.version = NVTX_VERSION, .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE};
    for (int step = 0; step < 3; step++) {
        char name[32];
        snprintf(name, sizeof name, "step %d", step);
        nvtxRangePushA(name);
        named.messageType = NVTX_MESSAGE_TYPE_ASCII;
        named.message.ascii = "assemble";
        nvtxRangePushEx(&named);
        nvtxRangePop();
        named.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
        named.message.registered = nvtxDomainRegisterStringA(domain, "solve");
        nvtxDomainRangePushEx(domain, &named);
        nvtxDomainRangePop(domain);
        nvtxRangePop();
    }
    nvtxRangePop();
    return 0;
}
"""


def test_ranges_of_nvtx_are_regions(tmp_path: Path) -> None:
    (tmp_path / "headers").mkdir()
    includes = headers(tmp_path / "headers", "NVTX", NVTX)
    (tmp_path / "ranges.c").write_text(NVTX_PROGRAM)
    compiled(*includes, tmp_path / "ranges.c", "-o", tmp_path / "ranges", "-ldl")
    (stream,) = record(tmp_path, [tmp_path / "ranges"])
    root = ".TAU application"
    assert stream.nesting() == {
        ("", root): 1,
        (root, "step"): 3,
        ("step", "assemble"): 3,
        ("step", "solve"): 3,
    }
