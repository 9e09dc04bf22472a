"""The port at which Prometheus asks for figures of a run."""

from __future__ import annotations

from collections.abc import Mapping

from chimbuko.errors import ServiceError
from chimbuko.protocol.messages import Frame
from chimbuko.pserver.runfigures import RunFigures


class MetricsPort:
    """Answers on the loopback interface, in a thread of its own.

    Parameters
    ----------
    port
        0 for any that is free.

    Raises
    ------
    ServiceError
        The port is in use.
    """

    def __init__(self, port: int) -> None:
        # Loaded here: most runs have no such port, and would pay 10 ms and 2 MB for its web server.
        from chimbuko.pserver.prometheus import PrometheusCollector, serve

        self._run = RunFigures()
        self._collector = PrometheusCollector()
        try:
            self.url = serve(self._collector, port)
        except OSError as error:
            raise ServiceError(
                f"metrics on port {port}: {error.strerror}; give another with --metrics"
            ) from None

    def report(self, frame: Frame, program_names: Mapping[int, str], lost_deltas: int) -> None:
        """From now on answer with this."""
        self._run.take(frame)
        self._collector.figures = self._run.figures(program_names, lost_deltas)
