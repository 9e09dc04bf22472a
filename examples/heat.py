"""Heat spreading over a plate, on several processes: a small parallel program to watch.

The plate is cut into strips, one process ("rank") each. In every iteration a rank exchanges its
edge rows with its neighbours through sockets, and relaxes its strip; now and then rank 0 adds up
the residuals of all. On request calls are delayed at random; each delay goes, as it happens, to
the truth file as one line: rank, iteration, function, start and end in µs since the epoch, and ms.

    python examples/heat.py --ranks 4 --iterations 2000
    python examples/heat.py --traced --seed 7 --delays 12 --truth truth.txt
    python examples/heat.py --traced --slower relax=10
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

import numpy as np

from chimbuko import tracer

TAG_DOWN, TAG_UP, TAG_RESIDUAL = 10, 11, 77
DIFFUSION = 0.2
RESIDUAL_EVERY = 10
CHECKPOINT_EVERY = 100
FIRST_CALLS = 50
"""Calls of each function that no delay touches, so that an observer can learn what is usual."""
SLOWABLE = ("relax", "apply_boundary", "checkpoint")
"""Functions that call no others of the program, so that more time in them is theirs."""
DELAYED_EVERY_ITERATION = ("step", "exchange_halo", "send_row", "relax", "apply_boundary")


@dataclass(frozen=True)
class Delay:
    """Time lost in one call: the first of ``function`` on ``rank`` in ``iteration``."""

    rank: int
    iteration: int
    function: str
    milliseconds: int
    is_busy: bool
    """Spent computing; otherwise asleep."""


def plan_delays(seed: int, ranks: int, iterations: int, number: int) -> list[Delay]:
    """Delays of 30 to 250 ms, in different iterations; the same for the same seed."""
    chance = random.Random(seed)
    first_residual = FIRST_CALLS * RESIDUAL_EVERY
    chosen = chance.sample(range(FIRST_CALLS, iterations), number)
    delays = []
    for iteration in sorted(chosen):
        functions = list(DELAYED_EVERY_ITERATION if ranks > 1 else ("step", "relax", "apply_boundary"))
        if iteration % RESIDUAL_EVERY == 0 and iteration >= first_residual:
            functions.append("residual")
        delays.append(
            Delay(
                chance.randrange(ranks),
                iteration,
                chance.choice(functions),
                chance.randint(30, 250),
                chance.random() < 0.5,
            )
        )
    return delays


class Strip:
    """One rank's part of the plate, with a halo row above and below."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.rank: int = options.worker
        self.ranks: int = options.ranks
        self.up, self.down = (socket.socket(fileno=fd) if fd >= 0 else None for fd in options.neighbours)
        self.collectives = [socket.socket(fileno=fd) for fd in options.collectives]
        rows = strip_rows(options.rows, options.ranks, self.rank)
        self.field = np.zeros((rows + 2, options.columns))
        self.next = self.field.copy()
        self.checkpoint_file = tempfile.TemporaryFile()  # noqa: SIM115
        self.iteration = 0
        plan = plan_delays(options.seed, options.ranks, options.iterations, options.delays)
        self.delays = {(delay.iteration, delay.function): delay for delay in plan if delay.rank == self.rank}
        self.slower, self.slower_by = options.slower or ("", 0.0)
        self.truth = os.open(options.truth, os.O_WRONLY | os.O_APPEND) if options.truth else -1

    def run(self, iterations: int) -> float:
        """Iterate; the last residual, of the whole plate on rank 0 and of the strip elsewhere."""
        last = 0.0
        for self.iteration in range(iterations):
            self.step()
            if self.iteration % RESIDUAL_EVERY == 0 or self.iteration == iterations - 1:
                last = self.residual()
            if self.iteration % CHECKPOINT_EVERY == CHECKPOINT_EVERY - 1:
                self.checkpoint()
        return last

    def step(self) -> None:
        self.lose_time("step")
        self.exchange_halo()
        self.relax()
        self.apply_boundary()
        self.field, self.next = self.next, self.field

    def exchange_halo(self) -> None:
        self.lose_time("exchange_halo")
        if self.up:
            self.send_row(self.up, self.rank - 1, TAG_UP, self.field[1])
        if self.down:
            self.send_row(self.down, self.rank + 1, TAG_DOWN, self.field[-2])
        if self.up:
            self.receive_row(self.up, self.rank - 1, TAG_DOWN, self.field[0])
        if self.down:
            self.receive_row(self.down, self.rank + 1, TAG_UP, self.field[-1])

    def send_row(self, to: socket.socket, partner: int, tag: int, row: np.ndarray) -> None:
        self.lose_time("send_row")
        tracer.send(partner, tag, row.nbytes)
        to.sendall(row)

    def receive_row(self, source: socket.socket, partner: int, tag: int, row: np.ndarray) -> None:
        receive_exactly(source, memoryview(row).cast("B"))
        tracer.receive(partner, tag, row.nbytes)

    def relax(self) -> None:
        began_ns = time.perf_counter_ns()
        self.lose_time("relax")
        old, inner = self.field, self.next[1:-1, 1:-1]
        np.add(old[:-2, 1:-1], old[2:, 1:-1], out=inner)
        inner += old[1:-1, :-2]
        inner += old[1:-1, 2:]
        inner *= DIFFUSION
        inner += (1 - 4 * DIFFUSION) * old[1:-1, 1:-1]
        self.take_longer("relax", began_ns)

    def apply_boundary(self) -> None:
        """The plate is hot along its upper edge and cold along the others."""
        began_ns = time.perf_counter_ns()
        self.lose_time("apply_boundary")
        self.next[:, 0] = self.next[:, -1] = 0.0
        if not self.up:
            self.next[0] = 1.0
        if not self.down:
            self.next[-1] = 0.0
        self.take_longer("apply_boundary", began_ns)

    def residual(self) -> float:
        self.lose_time("residual")
        change = self.field[1:-1] - self.next[1:-1]
        total = self.reduce_to_root(float(np.vdot(change, change)))
        tracer.counter("residual x 1e9", total * 1e9)
        return total

    def reduce_to_root(self, value: float) -> float:
        """Sum over all ranks on rank 0; elsewhere the rank's own value."""
        if self.rank:
            tracer.send(0, TAG_RESIDUAL, 8)
            self.collectives[0].sendall(struct.pack("d", value))
            return value
        for partner, source in enumerate(self.collectives, 1):
            received = bytearray(8)
            receive_exactly(source, memoryview(received))
            tracer.receive(partner, TAG_RESIDUAL, 8)
            value += struct.unpack("d", received)[0]
        return value

    def checkpoint(self) -> None:
        began_ns = time.perf_counter_ns()
        self.checkpoint_file.seek(0)
        self.checkpoint_file.write(self.field)
        self.checkpoint_file.flush()
        self.take_longer("checkpoint", began_ns)

    @tracer.untraced
    def lose_time(self, function: str) -> None:
        """Spend the delay planned for this call, if there is one, in the calling function's own time."""
        delay = self.delays.pop((self.iteration, function), None)
        if delay is None:
            return
        start = time.time_ns()
        end = start + delay.milliseconds * 1_000_000
        if delay.is_busy:
            while time.time_ns() < end:
                pass
        else:
            time.sleep(delay.milliseconds / 1000)
        if self.truth >= 0:
            line = (
                f"{self.rank} {self.iteration} {function} "
                f"{start // 1000} {time.time_ns() // 1000} {delay.milliseconds}\n"
            )
            os.write(self.truth, line.encode())

    @tracer.untraced
    def take_longer(self, function: str, began_ns: int) -> None:
        """Work on in the calling function, if it is to be slower, for a share of what it has taken."""
        if function != self.slower:
            return
        now_ns = time.perf_counter_ns()
        end_ns = now_ns + round(self.slower_by * (now_ns - began_ns))
        while time.perf_counter_ns() < end_ns:
            pass


def strip_rows(rows: int, ranks: int, rank: int) -> int:
    """Rows of one strip: the plate's rows shared out as evenly as possible."""
    return rows // ranks + (rank < rows % ranks)


def receive_exactly(source: socket.socket, buffer: memoryview) -> None:
    while buffer:
        received = source.recv_into(buffer)
        if not received:
            raise ConnectionError("a neighbour has ended")
        buffer = buffer[received:]


def work(options: argparse.Namespace) -> int:
    """One rank."""
    strip = Strip(options)
    try:
        residual = strip.run(options.iterations)
    except ConnectionError as error:
        print(f"heat: rank {strip.rank}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    if strip.rank == 0:
        print(f"heat: {options.ranks} ranks, {options.iterations} iterations, residual {residual:.12e}")
    return 0


def start_ranks(options: argparse.Namespace, processes: dict[int, subprocess.Popen[bytes]]) -> None:
    """One process per rank, by process id: in ``processes`` as soon as it is there."""
    halos = [socket.socketpair() for _ in range(options.ranks - 1)]
    collectives = [socket.socketpair() for _ in range(options.ranks - 1)]
    for rank in range(options.ranks):
        up = halos[rank - 1][1].fileno() if rank else -1
        down = halos[rank][0].fileno() if rank < options.ranks - 1 else -1
        roots = (
            [root.fileno() for root, _ in collectives] if rank == 0 else [collectives[rank - 1][1].fileno()]
        )
        command = [sys.executable]
        if options.traced:
            command += ["-m", "chimbuko", "trace", "--rank", str(rank)]
        command += [__file__, "--worker", str(rank), "--neighbours", str(up), str(down)]
        command += ["--collectives", *map(str, roots)]
        for name in ("ranks", "iterations", "rows", "columns", "seed", "delays"):
            command += [f"--{name}", str(getattr(options, name))]
        if options.slower:
            command += ["--slower", f"{options.slower[0]}={100 * options.slower[1]}"]
        if options.truth:
            command += ["--truth", options.truth]
        process = subprocess.Popen(command, pass_fds=[fd for fd in (up, down, *roots) if fd >= 0])
        processes[process.pid] = process
    for one, other in halos + collectives:
        one.close()
        other.close()


def launch(options: argparse.Namespace) -> int:
    """Run all ranks; the exit code of the first that failed."""
    if options.truth:
        open(options.truth, "w").close()
    if tracer.is_active():
        print("heat: trace the ranks, with --traced, and not their launcher", file=sys.stderr)
        return 2
    print(f"heat: seed {options.seed}", flush=True)
    processes: dict[int, subprocess.Popen[bytes]] = {}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    failure = 0
    try:
        start_ranks(options, processes)
        while any(process.returncode is None for process in processes.values()):
            pid, status = os.waitpid(-1, 0)
            code = processes[pid].returncode = os.waitstatus_to_exitcode(status)
            if code and not failure:
                failure = code if code > 0 else 128 - code
                end(processes)
    except KeyboardInterrupt:
        failure = 130
    finally:
        end(processes)
        for process in processes.values():
            process.wait()
    return failure


def end(processes: dict[int, subprocess.Popen[bytes]]) -> None:
    for process in processes.values():
        if process.returncode is None:
            process.terminate()


def slower_function(text: str) -> tuple[str, float]:
    """``relax=10`` as the function and a share."""
    function, _, percent = text.partition("=")
    if function not in SLOWABLE:
        raise argparse.ArgumentTypeError(
            f"{text!r}: give one of {', '.join(SLOWABLE)} and per cent: relax=10"
        )
    try:
        return function, float(percent) / 100
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: give per cent behind the name: relax=10") from None


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--iterations", type=int, default=2000)
    parser.add_argument("--rows", type=int, default=1024, help="of the whole plate")
    parser.add_argument("--columns", type=int, default=1024)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--delays", type=int, default=0, help="number of delayed calls, over all ranks")
    parser.add_argument("--truth", default="", help="file for the delays, one line each")
    parser.add_argument(
        "--slower", type=slower_function, metavar="FUNCTION=PERCENT", help="a function that takes longer"
    )
    parser.add_argument("--traced", action="store_true", help="start each rank under 'chimbuko trace'")
    parser.add_argument("--worker", type=int, default=-1, help=argparse.SUPPRESS)
    parser.add_argument("--neighbours", type=int, nargs=2, default=(-1, -1), help=argparse.SUPPRESS)
    parser.add_argument("--collectives", type=int, nargs="*", default=(), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not 1 <= options.ranks <= options.rows:
        parser.error("--ranks: at least 1, and not more than --rows")
    if options.delays > max(0, options.iterations - FIRST_CALLS):
        parser.error(f"--delays: needs at least {FIRST_CALLS + options.delays} iterations")
    return options


if __name__ == "__main__":
    chosen = parse()
    sys.exit(work(chosen) if chosen.worker >= 0 else launch(chosen))
