"""The agent's process: ``python -m chimbuko.ad.agent.__main__ SPEC``, with its ``AgentSpec`` in a JSON file.

``CHIMBUKO_BROKER`` in its environment has the broker's URL. When its streams can be read, one line of
JSON goes to stdout.
"""

from __future__ import annotations

import argparse
import signal
import sys
from functools import cache
from pathlib import Path

import msgspec

from chimbuko.ad.handoff.processspecs import AgentSpec
from chimbuko.ad.streamprocess.forkclient import ForkServer
from chimbuko.errors import ChimbukoError
from chimbuko.process.lifetime import die_with_parent, do_without_scipy, log, say_ready
from chimbuko.process.nameholding import hold
from chimbuko.process.signals import StopSignal
from chimbuko.process.starting import uncollected
from chimbuko.protocol.runbroker import RunBroker


@cache
def load() -> None:
    """Load what forks of one process share: the agent, its fork server and all readers."""
    with uncollected():
        do_without_scipy()
        import adios2.bindings  # noqa: F401

        import chimbuko.ad.agent.agent
        import chimbuko.ad.streamprocess.process  # noqa: F401
        from chimbuko.ad.streamprocess.warmup import warm_kernels

        warm_kernels()


def main() -> None:
    """Run one agent."""
    parser = argparse.ArgumentParser(prog="chimbuko.ad.agent", description=__doc__)
    parser.add_argument("spec", type=Path)
    options = parser.parse_args()
    should_stop = StopSignal()
    try:
        spec = msgspec.json.decode(options.spec.read_bytes(), type=AgentSpec)
        if spec.is_revived:
            die_with_parent(signal.SIGKILL)
        # Two agents would read each stream twice, into the same files.
        claim = hold(spec.scratch)
        load()
        # Before all that has a thread or a connection.
        forks = ForkServer()
        from chimbuko.ad.agent.agent import Agent

        found_in = Path(spec.broker_file) if spec.broker_file else None
        broker, claims = (RunBroker.from_environment(spec.run, found_in) for _ in range(2))
        agent = Agent(spec, broker, claims, forks)
        say_ready(service=spec.agent)
        with claim:
            agent.run(should_stop)
    except ChimbukoError as error:
        log(str(error))
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
