"""Process of an agent: ``python -m chimbuko.ad.agent.__main__ SPEC``, with its ``AgentSpec`` in a JSON file.

``CHIMBUKO_BROKER`` in its environment has the broker's URL. When its streams can be read, one line of
JSON goes to stdout.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from functools import cache
from pathlib import Path

import msgspec

from chimbuko.ad.handoff.processspecs import AgentSpec
from chimbuko.ad.streams.forkserver import ForkServer
from chimbuko.capture.trace.adios import adios2_bindings
from chimbuko.core.errors import ChimbukoError, ServiceError
from chimbuko.core.kernels.declare import load_all
from chimbuko.runtime.process.lifetime import die_with_parent, log, say_ready
from chimbuko.runtime.process.nameholding import hold
from chimbuko.runtime.process.signals import StopSignal
from chimbuko.runtime.process.starting import uncollected
from chimbuko.runtime.protocol.partition import leaf_of_agent, writer_of_agent
from chimbuko.runtime.protocol.runbroker import RunBroker

RETRY_S = 0.2


@cache
def load() -> None:
    """Load the modules that all forks of one process share: the agent, its fork server and all readers."""
    with uncollected():
        adios2_bindings()

        import chimbuko.ad.agent.agent
        import chimbuko.ad.streams.process  # noqa: F401

        load_all()


def _connected(spec: AgentSpec, should_stop: StopSignal) -> tuple[RunBroker, RunBroker]:
    """Open two connections to the broker. On many nodes services may just be gone, and come back: if the
    agent did not wait for them, its node would stay unread for the rest of the run.

    Raises
    ------
    ServiceError
        The broker cannot be used, and there is nothing to wait for.
    """
    found_in = Path(spec.broker_file) if spec.broker_file else None
    config = spec.config
    writer = writer_of_agent(spec.agent, config.store_writers)
    # Streams in lockstep wait for each other, and so for one server.
    leaf = leaf_of_agent(spec.agent, 0 if config.lockstep else config.leaf_servers)
    while True:
        try:
            broker = RunBroker.from_environment(spec.run, found_in, writer, leaf)
            return broker, RunBroker.from_environment(spec.run, found_in, writer, leaf)
        except ServiceError:
            if not spec.is_revived or should_stop():
                raise
        time.sleep(RETRY_S)


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
        # The fork comes before anything that has a thread or a connection.
        forks = ForkServer()
        from chimbuko.ad.agent.agent import Agent

        if spec.is_revived:
            say_ready(service=spec.agent)
        broker, claims = _connected(spec, should_stop)
        agent = Agent(spec, broker, claims, forks)
        if not spec.is_revived:
            say_ready(service=spec.agent)
        with claim:
            agent.run(should_stop)
    except ChimbukoError as error:
        log(str(error))
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
