"""What files of tests cost is known with the processes that they start."""

from __future__ import annotations

import os
import subprocess
import sys

from tests import cpucost
from tests.cpucost import cpu_s

BUSY = "import time\nwhile time.process_time() < 0.1: pass\n{then}"


def test_children_count_while_they_live_and_when_they_have_ended() -> None:
    before_s = cpu_s()
    ended = subprocess.run([sys.executable, "-S", "-c", BUSY.format(then="")], check=True)
    after_one_s = cpu_s()
    assert ended.returncode == 0 and after_one_s - before_s >= 0.1
    words = [sys.executable, "-S", "-c", BUSY.format(then="print(flush=True); input()")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as living:
        assert living.stdout is not None and living.stdout.readline()
        # The kernel counts in hundredths.
        while_it_lives_s = cpu_s()
        assert while_it_lives_s - after_one_s >= 0.08
        living.communicate(b"\n")
    assert cpu_s() >= while_it_lives_s - 0.02


def test_a_fork_counts_nothing_of_what_its_parent_has_counted() -> None:
    before = cpucost._spent_s["of the parent"]
    cpucost._spent_s["of the parent"] += 1
    if (fork := os.fork()) == 0:
        cpucost.begin_here()
        os._exit(len(cpucost._spent_s))
    assert os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1]) == 0
    assert cpucost._spent_s["of the parent"] == before + 1
    del cpucost._spent_s["of the parent"]
