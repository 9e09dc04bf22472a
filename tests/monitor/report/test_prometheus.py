"""What a Prometheus client reads of the exposition."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from chimbuko.monitor.procfs.system import NodeMemory
from chimbuko.monitor.report.prometheus import exposition
from chimbuko.monitor.sampling.identity import Identity
from chimbuko.monitor.sampling.span import ProcessSpan
from tests.monitor.sampling.made import span, thread
from tests.patience import PATIENCE_S

parser = pytest.importorskip("prometheus_client.parser")


def test_values_and_labels() -> None:
    made = span(
        thread(10, user_s=3.0, waited_s=None, involuntary=7),
        cores={0: 0.9},
        memory=NodeMemory(2**30, 2**29, 2**28),
        processes={10: ProcessSpan(10, 2**20, 2**21)},
    )
    text = exposition(made, {10: Identity(10, 5, "app", 3, 4, (0,), {})}, 'n"1\\')
    found = {
        (
            one.name,
            one.labels.get("mode") or one.labels.get("kind_of_switch"),
            one.labels.get("rank"),
            one.labels["node"],
        ): one.value
        for family in parser.text_string_to_metric_families(text)
        for one in family.samples
    }
    node = 'n"1\\'
    assert found["chimbuko_monitor_thread_seconds_total", "user", "3", node] == 3.0
    assert ("chimbuko_monitor_thread_seconds_total", "wait", "3", node) not in found
    assert found["chimbuko_monitor_thread_switches_total", "involuntary", "3", node] == 7
    assert found["chimbuko_monitor_core_seconds_total", "idle", None, node] == pytest.approx(1.0)
    assert found["chimbuko_monitor_process_resident_bytes", None, "3", node] == 2**20
    assert found["chimbuko_monitor_node_available_bytes", None, None, node] == 2**28


def test_the_file_of_a_real_program(tmp_path: Path) -> None:
    path = tmp_path / "chimbuko.prom"
    program = "import time\nwhile time.process_time() < 0.8: pass"
    command = [sys.executable, "-m", "chimbuko", "monitor", "--period", "200ms", "--prometheus", str(path)]
    subprocess.run([*command, "--", sys.executable, "-c", program], check=True, timeout=PATIENCE_S)
    families = {one.name: one for one in parser.text_string_to_metric_families(path.read_text())}
    assert any(one.value > 0 for one in families["chimbuko_monitor_thread_seconds"].samples)
