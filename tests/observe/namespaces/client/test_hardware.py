"""What nodes publish of themselves, and what an analysis makes of it."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

import pytest

from chimbuko.observe.namespaces.analyses.standard import cpu_utilisation
from chimbuko.observe.namespaces.client.hardware import observed
from chimbuko.observe.namespaces.exchange.keys import PLACE_VARIABLE
from chimbuko.observe.namespaces.exchange.namespacereader import Reader
from tests.integration.conftest import Command
from tests.observe.namespaces.served import served
from tests.thorough import first

STAT = """cpu  100 0 50 800 5 0 1 0 0 0
cpu0 60 0 30 400 5 0 1 0 0 0
cpu1 40 0 20 400 0 0 0 0 0 0
intr 12345 0 0
cpus 9
"""


def test_a_sample_has_somas_keys() -> None:
    assert observed(STAT, "123.45 67.8\n", "MemTotal: 16 kB\nMemAvailable:    12 kB\n", 7) == {
        "Num Processes": 7,
        "Uptime": 123.45,
        "Available RAM": 12,
        "stat": {
            "cpu": "100 0 50 800 5 0 1 0 0 0",
            "cpu0": "60 0 30 400 5 0 1 0 0 0",
            "cpu1": "40 0 20 400 0 0 0 0 0 0",
        },
    }


@pytest.mark.parametrize("text", ["", "\n", "MemAvailable:\n", "cpu", "x y z"])
def test_what_is_damaged_is_left_out(text: str) -> None:
    assert observed(text, text, text, 1).keys() <= {"Num Processes", "stat"}


@pytest.mark.parametrize(
    ("words", "code"),
    first(1, [(["--", sys.executable, "-c", "import time; time.sleep(1); exit(5)"], 5), ([], 0)]),
)
def test_a_node_is_published_beside_a_program_and_alone(words: list[str], code: int, tmp_path: Path) -> None:
    with served(tmp_path / "service", namespaces=("hardware",)) as service, Reader(service.path) as reader:
        place = {PLACE_VARIABLE: str(service.path)}
        command = Command("monitor", "--publish", "--period", "100ms", *words, environment=place)
        service.until(lambda: len(reader.history("hardware")) > 3)
        if not words:
            command.interrupt()
        assert command.end() == code, command.output
        found = reader.read("hardware")[platform.node()]
        utilisation = cpu_utilisation(reader.history("hardware"))[platform.node()]
    assert found["Uptime"] > 0 and found["Num Processes"] > 1 and found["Available RAM"] > 0
    assert len(found["stat"]) >= 1 + len(os.sched_getaffinity(0))
    assert 0.0 <= utilisation["mean_utilisation_percent"] <= 100.0 and utilisation["samples"] > 3


def test_without_a_service_it_is_one_line() -> None:
    command = Command("monitor", "--publish", environment={PLACE_VARIABLE: ""})
    assert command.end() == 2
    assert len(command.lines) == 1 and "CHIMBUKO_NAMESPACES" in command.output
