"""Random and spoilt input, for as long as one likes: nothing fails, and nothing is lost without a word.

Run: python -m tests.fuzz --seconds 60 [--only KIND ...]
     python -m tests.fuzz --only KIND --seed N            one round again

Each round of ``steps`` takes a stream, real or made up, spoils it in some ways, and analyses it; each of the
others does so with a trace of another tool. Kinds take turns.
"""

from __future__ import annotations

import argparse
import faulthandler
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from tests.fuzz import rounds, traces

LONGEST_ROUND_S = 120
"""A round takes milliseconds; on a machine under load, or while kernels are compiled, it may be seconds."""
KINDS = {
    "steps": rounds.one_round,
    **{name: partial(traces.one_round, name) for name in traces.MADE},
    "made.otf2": traces.otf2_round,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to go on")
    parser.add_argument("--only", nargs="+", choices=KINDS, default=[*KINDS], metavar="KIND")
    parser.add_argument("--seed", type=int, help="run one round of each kind again")
    options = parser.parse_args()
    first = int(time.time()) << 20 if options.seed is None else options.seed
    deadline = time.monotonic() + options.seconds
    seed = first
    while seed == first or (options.seed is None and time.monotonic() < deadline):
        for kind in options.only:
            faulthandler.dump_traceback_later(LONGEST_ROUND_S, exit=True)
            try:
                with tempfile.TemporaryDirectory() as folder:
                    KINDS[kind](seed, Path(folder))
            except BaseException:
                print(f"failed: python -m tests.fuzz --only {kind} --seed {seed}", file=sys.stderr)
                raise
        seed += 1
    faulthandler.cancel_dump_traceback_later()
    print(f"{seed - first:,} rounds of {', '.join(options.only)} from seed {first} on: no failure")


if __name__ == "__main__":
    main()
