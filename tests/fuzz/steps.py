"""Random and spoilt steps through the analysis of a stream: it never fails, and every row is accounted for.

Run: python tests/fuzz/steps.py --seconds 60 [--seed N]

Each round takes a stream, real or made up, spoils it in some ways, and analyses it. A round that fails
is reported by its seed, with which it can be run again.
"""

from __future__ import annotations

import argparse
import faulthandler
import sys
import tempfile
import time
from pathlib import Path

LONGEST_ROUND_S = 120
"""A round takes milliseconds; on a machine under load, or while kernels are compiled, it may be seconds."""


def main() -> None:
    sys.path.insert(0, str(Path(__file__).parent.parent.parent))
    from tests.fuzz.rounds import one_round

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to go on")
    parser.add_argument("--seed", type=int, help="run one round again")
    options = parser.parse_args()
    first = int(time.time()) << 20 if options.seed is None else options.seed
    deadline = time.monotonic() + options.seconds
    seed = first
    with tempfile.TemporaryDirectory() as folder:
        while seed == first or (options.seed is None and time.monotonic() < deadline):
            faulthandler.dump_traceback_later(LONGEST_ROUND_S, exit=True)
            try:
                one_round(seed, Path(folder))
            except BaseException:
                print(f"failed: python tests/fuzz/steps.py --seed {seed}", file=sys.stderr)
                raise
            for file in Path(folder).iterdir():
                file.unlink()
            seed += 1
    faulthandler.cancel_dump_traceback_later()
    print(f"{seed - first:,} rounds from seed {first} on: no failure, every row accounted for")


if __name__ == "__main__":
    main()
