"""Process of the services of a run on one node: the parameter server, and the writer of the store beside it.

Each is the loop that it is in a process of its own, with its own connection to the broker; the server has a
thread. So whoever of them dies takes the other one along, and both go on together from what they have saved.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from functools import partial

from chimbuko.core.errors import ChimbukoError
from chimbuko.provenance.service import __main__ as writing
from chimbuko.pserver import __main__ as serving
from chimbuko.runtime.process.lifetime import log, one_of_several, say_ready
from chimbuko.runtime.process.signals import StopSignal
from chimbuko.runtime.protocol.runbroker import wake_ourselves

NEXT = "--"
"""Word between the command lines of the two, which follow the names of both: the kernel may show no more."""


class _Server:
    """The parameter server in a thread.

    Parameters
    ----------
    ended
        Called in the thread when it has ended after it was asked to.
    """

    def __init__(
        self, part: serving.ServerPart, should_stop: Callable[[], bool], ended: Callable[[], object]
    ) -> None:
        self._part = part
        self._should_stop = should_stop
        self._ended = ended
        self.exit_code = 0
        self.is_running = True
        """Whether it has not ended yet."""
        threading.Thread(target=self._serve, name="parameter server", daemon=True).start()

    def _serve(self) -> None:
        # The kernel may give a signal to any thread, and only a wait of the main thread ends by it.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        one_of_several.set("pserver")
        try:
            self._part.run(self._should_stop)
        except ChimbukoError as error:
            log(str(error))
            self.exit_code = error.exit_code
        except BaseException:
            traceback.print_exc()
            self.exit_code = 1
        if not self._should_stop():
            # As if all were killed: they go on in another process.
            os._exit(self.exit_code)
        self.is_running = False
        self._ended()


def main() -> None:
    """Serve and write until asked to end: the server first, as the writer stores its last report."""
    words = sys.argv[3:]
    between = words.index(NEXT)
    server_options = serving.parsed(words[:between])
    writer_options = writing.parsed(words[between + 1 :])
    wake = partial(wake_ourselves, server_options.run_id)
    should_stop, is_urgent = StopSignal(wake), StopSignal(wake, signal.SIGTERM)
    try:
        part = serving.ServerPart(server_options, is_urgent)
        writer = writing.StoreWriter(writer_options, is_urgent)
        server = _Server(part, should_stop, ended=wake)
        say_ready(service="services", **part.facts)
        one_of_several.set("provenance")
        writer.run(lambda: should_stop() and not server.is_running)
    except ChimbukoError as error:
        log(str(error))
        sys.exit(error.exit_code)
    sys.exit(server.exit_code)


if __name__ == "__main__":
    main()
