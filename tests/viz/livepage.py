"""A page without a browser, that follows frames as ``state/grid.ts`` and ``state/histories.ts`` do."""

from __future__ import annotations

import base64
import json
import threading
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

import numpy as np
import numpy.typing as npt
import requests
import simple_websocket

from tests.patience import PATIENCE_S
from tests.viz.conftest import TOKEN
from tests.viz.websocket import Client

MOST_COLUMNS = 1024


class LivePage:
    """Connected to a dashboard; ``next`` takes what it says."""

    def __init__(self, base: str) -> None:
        self._base = base
        self._headers = {"Authorization": f"Bearer {TOKEN}"}
        address = base.replace("http://", "ws://") + "socket.io/?EIO=4&transport=websocket"
        self._socket = Client(address, headers=self._headers)
        self._packets: SimpleQueue[Any] = SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()
        assert self._receive().startswith("0")
        self.frames: list[dict[str, Any]] = []
        self.steps: dict[str, dict[int, list[Any]]] = {}
        self.cells: npt.NDArray[np.uint8] = np.zeros((0, MOST_COLUMNS), np.uint8)
        self._socket.send("40/events,")
        while not (packet := self._receive()).startswith("40/events,"):
            self._take(packet)

    def close(self) -> None:
        """The page is closed."""
        with suppress(Exception):
            self._socket.close()

    def ask(self, path: str) -> Any:
        """Ask the API."""
        answer = requests.get(f"{self._base}api/v1/{path}", headers=self._headers, timeout=PATIENCE_S)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def watch(self, ranks: list[str]) -> None:
        """Ask for the steps of ranks, and read what there is of them once that is heard."""
        self._socket.send("42/events,7" + json.dumps(["watch", ranks]))
        while not self._take(self._receive()):
            pass
        for series in self.ask("steps?" + "&".join(f"rank={rank}" for rank in ranks))["series"]:
            self._keep(series["rank"], series["steps"])

    def read_grid(self) -> None:
        """Read the whole grid."""
        body = self.ask("grid")
        self.layout, self.width = body["layout"], body["steps_per_column"]
        self.columns = body["columns"]
        self.cells = np.zeros((body["rows"], MOST_COLUMNS), np.uint8)
        flat = np.frombuffer(base64.b64decode(body["cells"]), np.uint8) + np.uint8(1)
        self.cells[:, : self.columns] = flat.reshape(body["rows"], self.columns)

    def next(self) -> dict[str, Any]:
        """The next frame; steps that come before it are taken."""
        seen = len(self.frames)
        while len(self.frames) == seen:
            self._take(self._receive())
        return self.frames[-1]

    def shown(self) -> list[list[int]]:
        """Cells of the grid, by row."""
        rows: list[list[int]] = (self.cells[:, : self.columns] - np.uint8(1)).tolist()
        return rows

    def _listen(self) -> None:
        """Answer pings while nobody asks for frames, as a browser does: 2 s later the page is thrown out."""
        with suppress(simple_websocket.ConnectionClosed):
            while True:
                packet = self._socket.receive()
                if packet == "2":
                    self._socket.send("3")
                else:
                    self._packets.put(packet)
        self._packets.put(None)

    def _receive(self) -> Any:
        packet = self._packets.get(timeout=PATIENCE_S)
        assert packet is not None, "the connection was closed"
        return packet

    def _take(self, packet: Any) -> bool:
        """Take a packet; says whether it is the answer to ``watch``."""
        if packet.startswith(("42/events,", "452-/events,")):
            event, content = json.loads(packet.partition(",")[2])
            if event == "frame":
                if packet.startswith("452"):
                    for layer in ("cells", "lost"):
                        content["grid"][layer] = self._receive()
                self._follow(content)
            elif event == "steps":
                for rank, rows in content.items():
                    self._keep(rank, rows)
        return bool(packet.startswith("43/events,7"))

    def _keep(self, rank: str, rows: list[list[Any]]) -> None:
        self.steps.setdefault(rank, {}).update((row[0], row) for row in rows)

    def _follow(self, frame: dict[str, Any]) -> None:
        self.frames.append(frame)
        update = frame["grid"]
        if not len(self.cells):
            return
        if frame["resync"] or (update is not None and update["layout"] != self.layout):
            self.read_grid()
        elif update is not None:
            while self.width < update["steps_per_column"]:
                half = MOST_COLUMNS // 2
                self.cells[:, :half] = np.maximum(self.cells[:, 0::2], self.cells[:, 1::2])
                self.cells[:, half:] = 0
                self.width *= 2
            self.columns = max(self.columns, update["columns"])
            wider = self.width // update["steps_per_column"]
            for packed in np.frombuffer(update["cells"], "<u4").tolist():
                place = packed >> 18, (packed >> 8 & 1023) // wider
                self.cells[place] = max(self.cells[place], (packed & 255) + 1)
