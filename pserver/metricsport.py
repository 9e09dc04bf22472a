"""The port at which Prometheus asks for figures of a run."""

from __future__ import annotations

from collections.abc import Mapping

from chimbuko.core.errors import ServiceError
from chimbuko.pserver.runfigures import RunFigures
from chimbuko.runtime.protocol.messages import Frame
from chimbuko.runtime.protocol.metricsplace import metrics_place


class MetricsPort:
    """Answers, in a thread of its own, those that bring the token.

    Parameters
    ----------
    given
        ``[WHERE:]PORT``; port 0 for any that is free.
    token
        All users of the machine reach the loopback, so that is asked for there, too.

    Raises
    ------
    ConfigError
        It is no such place.
    ServiceError
        The port is in use.
    """

    def __init__(self, given: str, token: str) -> None:
        # Loaded here: most runs have no such port, and would pay 10 ms and 2 MB for its web server.
        from chimbuko.pserver.prometheus import PrometheusCollector, serve

        address, port = metrics_place(given)
        self._run = RunFigures()
        self._collector = PrometheusCollector()
        try:
            self.url = serve(self._collector, address, port, token)
        except OSError as error:
            raise ServiceError(
                f"metrics on port {port}: {error.strerror}; give another with --metrics"
            ) from None

    def report(self, frame: Frame, program_names: Mapping[int, str], lost_deltas: int) -> None:
        """From now on answer with this."""
        self._run.take(frame)
        self._collector.figures = self._run.figures(program_names, lost_deltas)
