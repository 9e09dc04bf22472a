"""A client and a service: SOMA's verbs, what goes over the wire, and what slow and lost links do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest

from chimbuko.core.errors import ConfigError, ObservationError, ServiceError
from chimbuko.observe.namespaces.client.client import Client
from chimbuko.observe.namespaces.exchange.jobaddress import (
    JobAddress,
    find_address,
    parse_address,
)
from chimbuko.observe.namespaces.exchange.keys import PLACE_VARIABLE, STANDING
from chimbuko.observe.namespaces.exchange.namespacereader import Reader
from tests.observe.namespaces.served import Served, served
from tests.observe.namespaces.slowlink import SlowLink, slow_link
from tests.patience import PATIENCE_S


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    path = tmp_path_factory.mktemp("client") / "service"
    with served(path, namespaces=STANDING, keep_bytes=8 << 20) as one:
        yield one


@pytest.fixture
def job(service: Served, request: pytest.FixtureRequest) -> Path:
    """A job of its own for each test: its folder of places."""
    return service.admit(f"job-{abs(hash(request.node.nodeid)) % 10**9}")


@pytest.fixture
def link(job: Path) -> Iterator[tuple[SlowLink, JobAddress]]:
    """A link to the service, and the place behind it."""
    place = find_address(job)
    port = urlsplit(place.url).port
    assert port is not None
    with slow_link(port) as link:
        yield link, replace(place, url=place.url.replace(f":{port}/", f":{link.port}/"), file=None)


@pytest.mark.parametrize(("frequency", "messages"), [(1, 500), (5, 100), (50, 10)])
def test_so_many_commits_make_one_message(job: Path, frequency: int, messages: int) -> None:
    with Client(job) as client:
        namespace = client.create("application")
        namespace.set_publish_frequency(frequency)
        for step in range(500):
            namespace.update("step", step)
            namespace.update("loss", [0.5], "append")
            namespace.commit_async()
    assert client.delivered == messages
    with Reader(job) as reader:
        history = reader.history("application")
        found = reader.read("application")
    assert len(history) == messages
    assert sum(observation.commits for observation in history) == 500
    assert found["step"] == 499 and found["loss"].tolist() == [0.5] * 500


def test_what_was_committed_is_published_at_the_end_and_nothing_else(job: Path) -> None:
    with Client(job) as client:
        namespace = client.create("application")
        namespace.set_publish_frequency(10)
        namespace.update("committed", 1)
        namespace.commit()
        namespace.update("open", 1)
    with Reader(job) as reader:
        assert reader.read("application") == {"committed": 1}


def test_only_what_changed_is_published(job: Path) -> None:
    with Client(job) as client, Reader(job) as reader:
        namespace = client.create("performance")
        for step in range(3):
            namespace.update_all({"Rank 0": {"step": step, "name": "heat", "mass": float("nan")}})
            namespace.commit()
        namespace.commit()
        changes = [list(observation.change.put) for observation in reader.history("performance")]
    assert changes[0] == [("Rank 0", key) for key in ("step", "name", "mass")]
    assert changes[1:] == [[("Rank 0", "step")]] * 2


def test_all_verbs_publish(job: Path) -> None:
    with Client(job) as client, Reader(job) as reader:
        for number, verb in enumerate(
            ("commit", "commit_async", "publish", "publish_async", "publish_tree", "publish_tree_async")
        ):
            namespace = client.create("workflow")
            if verb.startswith("publish_tree"):
                arrival = getattr(namespace, verb)({f"task.{number}": {"state": "DONE"}})
            else:
                namespace.update([f"task.{number}", "state"], "DONE")
                arrival = getattr(namespace, verb)()
            if verb.endswith("async"):
                arrival.result(10)
            assert reader.read("workflow")[f"task.{number}"] == {"state": "DONE"}
        assert client.create("workflow") is namespace
        assert namespace.publish_async() is None


def test_values_come_back_with_their_types(job: Path) -> None:
    field = np.arange(6, dtype=np.float32).reshape(2, 3)
    with Client(job) as client:
        namespace = client.create("application")
        namespace.update("field", field)
        namespace.update("pid", np.uint32(7))
        namespace.update(["a/b", "50%"], True)
        namespace.publish()
    with Reader(job) as reader:
        found = reader.read("application")
    assert found["field"].dtype == np.float32 and found["field"].tolist() == field.tolist()
    assert isinstance(found["pid"], np.uint32) and found["a/b"]["50%"] is True


def test_a_large_update_goes_in_several_messages(job: Path) -> None:
    with Client(job) as client:
        namespace = client.create("application")
        for number in range(8):
            namespace.update(f"field {number}", np.full(1 << 16, number, float))
        namespace.publish()
    assert client.delivered > 1
    with Reader(job) as reader:
        assert sum(observation.commits for observation in reader.history("application")) == 1
        found = reader.read("application")
    assert {name: field[0] for name, field in found.items()} == {f"field {n}": float(n) for n in range(8)}


def test_wrong_updates_are_refused_at_once_and_change_nothing(job: Path) -> None:
    with Client(job) as client:
        namespace = client.create("application")
        namespace.update("loss", 0.5)
        for key, value, why in (
            ("loss", "text", "loss: is a float64, and the new value a string"),
            ("loss/min", 1.0, "loss/min: loss is a value, not a group"),
            ("", 1.0, "the empty path is no key"),
            ("k" * 2000, 1.0, "has 2,000 bytes, and may have 1,024"),
            ("/".join("k" * 40), 1.0, "has 40 keys, and may have 32"),
            ("big", np.zeros(1 << 20), "big: has 8,388,608 bytes"),
            ("none", None, "none: a NoneType is no value"),
        ):
            with pytest.raises(ObservationError, match=why):
                namespace.update(key, value)
        with pytest.raises(ConfigError, match="'replace': an update is 'overwrite' or 'append'"):
            namespace.update("loss", 1.0, "replace")
        with pytest.raises(ConfigError, match="publish frequency 0"):
            namespace.set_publish_frequency(0)
        with pytest.raises(ConfigError, match="'weather': no namespace of service test, which has "):
            client.create("weather")
        namespace.publish()
    with Reader(job) as reader:
        assert reader.read("application") == {"loss": 0.5}


def test_a_slow_service_delays_only_who_waits_for_it(link: tuple[SlowLink, JobAddress], job: Path) -> None:
    """That which is asynchronous never waits: with 200 ms each way 20 of them would take 8 s."""
    slow, place = link
    with Client(place) as client:
        namespace = client.create("application")
        slow.delay_s = 0.2
        begin = time.monotonic()
        for step in range(20):
            namespace.update("steps", step, "append")
            namespace.commit_async()
        # It holds at any speed of this machine: none of them can have arrived by now.
        assert client.delivered == 0 and client.waiting == 20
        namespace.update("last", True)
        namespace.commit()
        assert time.monotonic() - begin >= 0.4
        assert client.waiting == 0
    with Reader(job) as reader:
        found = reader.read("application")
        assert sum(observation.commits for observation in reader.history("application")) == 21
    assert found["steps"].tolist() == list(range(20)) and found["last"] is True


def test_a_link_that_breaks_loses_and_repeats_nothing(link: tuple[SlowLink, JobAddress], job: Path) -> None:
    broken, place = link
    with Client(place) as client:
        namespace = client.create("application")
        for step in range(60):
            namespace.update("steps", step, "append")
            namespace.commit_async()
            if step % 10 == 9:
                broken.cut()
                time.sleep(0.02)
    with Reader(job) as reader:
        assert reader.read("application")["steps"].tolist() == list(range(60))


def test_what_is_sent_again_counts_once(link: tuple[SlowLink, JobAddress], job: Path) -> None:
    """A link that breaks when the service has a message, and its answer has not come back."""
    broken, place = link
    with Client(place) as client, Reader(job) as reader:
        namespace = client.create("application")
        broken.may_answer.clear()
        namespace.update("steps", 1, "append")
        arrival = namespace.commit_async()
        assert arrival is not None
        while not reader.history("application"):
            time.sleep(0.01)
        assert not arrival.done()
        broken.cut()
        broken.may_answer.set()
        arrival.result(30)
        assert reader.read("application")["steps"] == 1
        (counts,) = reader.counts("application")
    assert (counts.publications, counts.repeated) == (1, 1)


def test_a_reader_hears_what_comes_and_what_was(job: Path) -> None:
    with Client(job, rank=3) as client, Reader(job) as reader:
        namespace = client.create("application")
        namespace.update_all({"a": {"x": 1}, "b": 1})
        namespace.commit()
        comes = reader.subscribe("application", "a")
        namespace.update_all({"a": {"x": 2}, "b": 2})
        namespace.commit()
        namespace.update("b", 3)
        namespace.commit()
        namespace.update("a/x", 4)
        namespace.commit()
        heard = [next(comes), next(comes)]
        assert [observation.change.put for observation in heard] == [{("a", "x"): 2}, {("a", "x"): 4}]
        assert heard[0].rank == 3 and heard[0].commits == 1
        assert abs(heard[0].time_us - time.time() * 1e6) < 60e6
        was = reader.subscribe("application", "b", has_past=True)
        assert [next(was).change.put[("b",)] for _ in range(3)] == [1, 2, 3]
        assert list(reader.subscribe("application", should_stop=lambda: True)) == []


def test_who_may_read_may_not_publish(job: Path) -> None:
    client = Client(job / "reader")
    with pytest.raises(ServiceError, match="refused: not permitted; use the file 'writer'"):
        client.create("application").publish_tree({"a": 1})
    with pytest.raises(ServiceError, match="1 publication did not arrive"):
        client.close()


def test_jobs_know_nothing_of_each_other(service: Served) -> None:
    first, second = service.admit("first"), service.admit("second")
    with Client(first) as client:
        client.create("application").publish_tree({"a": 1})
    with Reader(second) as reader:
        assert reader.read("application") == {}
    # The rights of the one with the name of the other.
    mine = find_address(second, "reader")
    with (
        pytest.raises(ServiceError, match=r"cannot be read .*permission"),
        Reader(replace(mine, job="first")) as reader,
    ):
        reader.read("application")
    thief = Client(replace(find_address(second), job="first"))
    with pytest.raises(ServiceError, match="not permitted"):
        thief.create("application").publish_tree({"a": 2})
    with pytest.raises(ServiceError):
        thief.close()
    service.folder.dismiss("first")
    service.serving.look_after()
    with pytest.raises(ServiceError, match=r"cannot be used .*still right"):
        Client(parse_address(find_address(second).text.replace("second", "first")))


def test_a_service_of_another_version_says_so(job: Path, service: Served) -> None:
    with service.folder.connect() as broker:
        key = "{chimbuko-ns:other}about"
        broker.set(key, json.dumps({"version": 9, "instances": {}}))
    place = replace(parse_address(f"{(service.path / 'broker').read_text()}#test/x"), service="other")
    with pytest.raises(ServiceError, match="speaks version 9 of publications, and this Chimbuko 1"):
        Client(place)
    with pytest.raises(ServiceError, match="service third is not at its broker: start it"):
        Client(replace(place, service="third"))


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("redis://127.0.0.1:1/0", "no place of namespaces"),
        ("redis://127.0.0.1:1/0#a", "no place of namespaces"),
        ("redis://127.0.0.1:1/0#a b/c", "'a b': no name of a service"),
        ("/no/such/folder", "/no/such/folder: cannot be read"),
    ],
)
def test_what_is_no_place_is_refused(place: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        find_address(place)


def test_without_a_place_it_is_said_how_to_name_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PLACE_VARIABLE, raising=False)
    with pytest.raises(ConfigError, match=f"set {PLACE_VARIABLE} to its folder"):
        Client()


def test_nobody_answers(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match=r"127.0.0.1:1 cannot be used"):
        Client("redis://127.0.0.1:1/0#a/b")


PROGRAM = """
import os, sys
from chimbuko.observe.namespaces.client.client import Client
client = Client(sys.argv[1])
namespace = client.create("application")
namespace.update("rank", int(os.environ["OMPI_COMM_WORLD_RANK"]))
namespace.publish()
child = os.fork()
if child == 0:
    try:
        namespace.update("rank", 5)
        namespace.publish_async()
    except Exception as error:
        print(error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
client.close()
"""


def test_ranks_come_from_the_launcher_and_a_fork_has_no_client(job: Path) -> None:
    environment = {**os.environ, "OMPI_COMM_WORLD_RANK": "3"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(job)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "make one in each process" in done.stdout
    with Reader(job) as reader:
        (only,) = reader.history("application")
    assert only.rank == 3 and only.change.put == {("rank",): 3}


def test_a_killed_program_leaves_what_had_arrived(job: Path) -> None:
    program = "import sys, time; from chimbuko.observe.namespaces.client.client import Client\n"
    program += "one = Client(sys.argv[1]).create('application'); one.publish_tree({'a': 1})\n"
    program += "print('there', flush=True); time.sleep(60)\n"
    with subprocess.Popen([sys.executable, "-c", program, str(job)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline()
        process.send_signal(signal.SIGKILL)
    with Reader(job) as reader:
        assert reader.read("application") == {"a": 1}
