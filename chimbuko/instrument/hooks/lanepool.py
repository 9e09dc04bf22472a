"""Numbers of the stacks that take turns on one thread."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class LanePool:
    """Numbers of the stacks that take turns on one thread, besides its own, each as long as a stack lives.

    Parameters
    ----------
    own
        Number of the thread.
    new
        Function that returns a number that no other stack has.
    """

    def __init__(self, own: int, new: Callable[[], int]) -> None:
        self.current = own
        """Number of the greenlet that runs, or of the thread."""
        self.free: list[int] = []
        self.numbers: list[int] = []
        """All numbers that were ever taken."""
        self._new = new

    def take(self) -> int:
        """Take a number."""
        if self.free:
            return self.free.pop()
        number = self._new()
        self.numbers.append(number)
        return number
