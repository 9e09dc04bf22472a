"""The node beside a call, out of stored samples."""

from __future__ import annotations

import pytest

from chimbuko.monitor.sampling.nodebatch import packed
from chimbuko.provenance.query.besidecall import MOST_LOOKS, node_beside
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.write.writer import Writer
from tests.causes.flagged import record
from tests.causes.nodes import batch, gpu, names, other, thread, ticks


def test_a_call_has_what_its_thread_and_others_did_beside_it(writer: Writer, provenance: Provenance) -> None:
    own = [*ticks(1, -400, 0), *ticks(1, 0, 200, ran_us=5_000, waited_us=15_000), *ticks(1, 200, 600)]
    rival = ticks(2, -400, 600, core=0, ran_us=14_000)
    writer.write_samples([packed(batch([*own, *rival], [other(0, 200, 0, 20)]))])
    found = node_beside(provenance.reader, record("compute", 1, 0, 200))
    assert found is not None
    times = {one.what: one.time_us for one in found.times}
    assert times == pytest.approx({"in the program": 50_000, "waited for a core": 150_000})
    assert [(one.name, one.is_own) for one in found.threads] == [("rank 1", True), ("rank 2", False)]
    assert [one.by for one in found.cores] == ["rank 2", "spinner (root, process 4711)"]
    looks = found.threads[0].looks
    assert found.from_us <= looks[0].begin_us + looks[0].length_us and looks[-1].begin_us < found.to_us
    assert sum(look.waited_us for look in looks) == 150_000


def test_without_samples_of_its_thread_there_is_nothing_beside_a_call(
    writer: Writer, provenance: Provenance
) -> None:
    call = record("compute", 1, 0, 200)
    assert node_beside(provenance.reader, call) is None
    writer.write_samples([packed(batch(ticks(2, 0, 200), names=names(1)))])
    assert node_beside(provenance.reader, call) is None


def test_looks_of_a_long_call_are_put_together(writer: Writer, provenance: Provenance) -> None:
    rows = [thread(0, step, step + 20, ran_us=7_000) for step in range(-4_000, 24_000, 20)]
    writer.write_samples([packed(batch(rows))])
    found = node_beside(provenance.reader, record("compute", 0, 0, 20_000))
    assert found is not None
    (own,) = found.threads
    assert len(own.looks) <= MOST_LOOKS
    assert sum(look.ran_us for look in own.looks) == pytest.approx(
        0.35 * sum(look.length_us for look in own.looks)
    )


def test_gpus_that_its_process_may_use_are_beside_a_call(writer: Writer, provenance: Provenance) -> None:
    others = gpu(-400, 600, pid=4711, gpu=3)
    calm, during = gpu(-400, 0, busy=0.1), gpu(0, 200, throttled_us=100_000, foreign=1)
    writer.write_samples([packed(batch(ticks(1, -400, 600), gpus=[calm, during, others]))])
    found = node_beside(provenance.reader, record("compute", 1, 0, 200))
    assert found is not None
    (one,) = found.gpus
    assert (one.gpu, one.busy_share, one.throttled_share, one.foreign) == (2, 1.0, 0.5, 1)
    assert (one.usual_busy_share, one.usual_throttled_share) == pytest.approx((0.1, 0.0))
