"""The parameter server's process: reads deltas from the broker, publishes models and frames."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import cast

import msgspec
import redis

from chimbuko.broker import broker_from_environment, read_stream
from chimbuko.config import DETECTORS, METRICS, AnalysisConfig
from chimbuko.errors import ChimbukoError
from chimbuko.messages import DELTAS, FRAMES, MODEL, MODEL_UPDATES, PAYLOAD, PROGRAMS, Delta
from chimbuko.model import Model, load_model, save_model
from chimbuko.processes import StopSignal, log, say_ready
from chimbuko.pserver.state import ServerState
from chimbuko.tables import schema_of

FRAME_PERIOD_S = 0.25
READ_BLOCK_MS = 20
READ_COUNT = 1000
KEPT_UPDATES = 200
"""Model updates kept for agents that lag; who lags further takes the whole model."""
KEPT_FRAMES = 1000
RETRY_S = 0.2

_deltas = msgspec.msgpack.Decoder(Delta)
_encoder = msgspec.msgpack.Encoder()


class Server:
    """The state and its connection to the broker."""

    def __init__(self, broker: redis.Redis, state: ServerState) -> None:
        self._broker = broker
        self._state = state
        self._read_to = b"0"
        self._framed_at = 0.0

    def run(self, should_stop: StopSignal) -> None:
        """Serve until asked to stop and nothing is left to merge."""
        while True:
            try:
                is_idle = self._serve_once()
                if should_stop() and is_idle:
                    self._publish_frame(is_last=True)
                    return
            except redis.RedisError as error:
                log(f"broker does not answer ({error}); trying again")
                if should_stop():
                    return
                time.sleep(RETRY_S)

    def _serve_once(self) -> bool:
        """Merge what has come; True if nothing had."""
        entries = read_stream(self._broker, DELTAS, self._read_to, READ_COUNT, READ_BLOCK_MS)
        # Programs have their numbers before their first delta is sent.
        programs = cast(dict[bytes, bytes], self._broker.hgetall(PROGRAMS))
        self._state.name_programs({int(number): name.decode() for name, number in programs.items()})
        for entry, payload in entries:
            self._state.apply(_deltas.decode(payload))
            self._read_to = entry
        self._publish_model()
        if time.monotonic() - self._framed_at >= FRAME_PERIOD_S:
            self._framed_at = time.monotonic()
            self._publish_frame(is_last=False)
        return not entries

    def _publish_model(self) -> None:
        update = self._state.model_update()
        if update is None:
            return
        with self._broker.pipeline() as pipeline:
            pipeline.set(MODEL, _encoder.encode(self._state.model()))
            pipeline.xadd(
                MODEL_UPDATES, {PAYLOAD: _encoder.encode(update)}, maxlen=KEPT_UPDATES, approximate=True
            )
            pipeline.xtrim(DELTAS, minid=self._read_to, approximate=False)
            pipeline.execute()

    def _publish_frame(self, is_last: bool) -> None:
        frame = self._state.frame(is_last)
        if frame is not None:
            self._broker.xadd(FRAMES, {PAYLOAD: _encoder.encode(frame)}, maxlen=KEPT_FRAMES, approximate=True)


def main() -> None:
    """Run the server until SIGTERM."""
    parser = argparse.ArgumentParser(prog="chimbuko.pserver", description=__doc__)
    parser.add_argument("--lockstep-streams", type=int, default=0)
    parser.add_argument("--detector", choices=DETECTORS, default=DETECTORS[0])
    parser.add_argument("--metric", choices=METRICS, default=METRICS[0])
    parser.add_argument("--load-model", type=Path)
    parser.add_argument("--freeze", action="store_true")
    parser.add_argument("--save-model", type=Path, action="append", default=[])
    options = parser.parse_args()
    try:
        config = AnalysisConfig(detector=options.detector, metric=options.metric)
        base = load_model(options.load_model, config) if options.load_model else None
        schema = schema_of(options.detector)
        state = ServerState(options.lockstep_streams, schema, base, options.freeze)
        server = Server(broker_from_environment(), state)
        should_stop = StopSignal()
        say_ready(service="pserver")
        server.run(should_stop)
        for path in options.save_model:
            save_model(path, Model(options.detector, options.metric, *state.learned()))
    except ChimbukoError as error:
        log(str(error))
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
