"""Watch of the drains of a run on one node: nobody else notices that one has died."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from chimbuko.instrument.recorder.ringfolder import (
    LOG_NAME,
    is_drained,
    is_in_use,
    marked_folders,
    process_files,
    remove_ring_folder,
    unwritten,
)

OURS = "chimbuko: "
"""Begin of the lines that Chimbuko's own processes write."""
MOST_SAID = 20
"""Most lines that are shown; the log file has all."""


class RecorderWatch:
    """Watch of what goes wrong with the recorder.

    Parameters
    ----------
    streams
        Folder of the run's streams on this node.
    kept
        Path at which the log file of the drains is kept.
    """

    def __init__(self, streams: Path, kept: Path) -> None:
        self._streams = streams
        self._kept = kept
        self._read = 0
        self._said = 0
        self._unattended: set[str] = set()

    def news(self, is_last: bool = False) -> list[str]:
        """Return a line for each problem that was not reported before.

        Parameters
        ----------
        is_last
            Whether all programs have ended.
        """
        lines = self._losses(is_last) + self._entries()
        room = max(0, MOST_SAID - self._said)
        self._said += len(lines)
        if is_last and self._said > MOST_SAID:
            return [*lines[:room], f"the recorder has {self._said - MOST_SAID} more messages: {self._kept}"]
        return lines[:room]

    def _losses(self, is_last: bool) -> list[str]:
        lines = []
        for folder in marked_folders(self._streams):
            # The drain is there before the program is.
            if not (is_last or process_files(folder)) or is_drained(folder):
                continue
            if is_last or not is_in_use(folder):
                lost = [text for path in process_files(folder) if (text := unwritten(path))]
                lines += [f"{text}; the recorder beside it has died" for text in lost]
                remove_ring_folder(folder, self._streams)
            elif folder.name not in self._unattended:
                self._unattended.add(folder.name)
                pids = ", ".join(path.name.partition("-")[0] for path in process_files(folder))
                lines.append(f"process {pids} is not recorded any more: the recorder beside it has died")
        return lines

    def _entries(self) -> list[str]:
        """Return the new lines of the log file, and keep them."""
        with suppress(OSError), open(self._streams / LOG_NAME, "rb") as file:
            file.seek(self._read)
            new = file.read()
            # The last line may be incomplete while it is being written.
            whole = new[: new.rfind(b"\n") + 1]
            self._read += len(whole)
            with suppress(OSError), open(self._kept, "ab") as kept:
                kept.write(whole)
            lines = whole.decode(errors="replace").splitlines()
            ours = [line.removeprefix(OURS) for line in lines if line.startswith(OURS)]
            others = [line for line in lines if not line.startswith(OURS) and line.strip()]
            if others:
                ours.append(f"the recorder has failed ({others[-1].strip()}); see {self._kept}")
            return ours
        return []
