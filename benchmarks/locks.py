"""What it costs to count locks (`chimbuko monitor --locks`), in ns for each pair of a lock and its unlock.

    python benchmarks/locks.py [--runs 4]

A program of one thread locks and unlocks a mutex; the shortest of 4,000 rounds of 20,000 pairs counts, in
turn without the library and with it, so that other load hardly matters.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
from pathlib import Path

from chimbuko.monitor.report.locks import LockFile
from chimbuko.runtime.preload import find_compiler

PROGRAM = """
#include <pthread.h>
#include <stdio.h>
#include <time.h>
int main(void)
{
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    struct timespec begin, end;
    double best_ns = 1e9;
    for (int round = 0; round < 4000; round++) {
        clock_gettime(CLOCK_MONOTONIC, &begin);
        for (int pair = 0; pair < 20000; pair++) {
            pthread_mutex_lock(&mutex);
            pthread_mutex_unlock(&mutex);
        }
        clock_gettime(CLOCK_MONOTONIC, &end);
        double ns = ((end.tv_sec - begin.tv_sec) * 1e9 + (end.tv_nsec - begin.tv_nsec)) / 20000;
        best_ns = ns < best_ns ? ns : best_ns;
    }
    printf("%.2f", best_ns);
    return 0;
}
"""


def main() -> None:
    """Print a line for each pair of runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=4)
    runs = parser.parse_args().runs
    counting = LockFile(f"chimbuko-benchmark-{os.getpid()}")
    try:
        with tempfile.TemporaryDirectory() as folder:
            source, program = Path(folder, "pairs.c"), Path(folder, "pairs")
            source.write_text(PROGRAM)
            compiler = find_compiler(os.environ, "the program")
            subprocess.run([*compiler, "-O2", "-o", program, source, "-pthread"], check=True)
            for _ in range(runs):
                without, counted = (
                    float(subprocess.check_output([program], env=environment))
                    for environment in (os.environ, counting.environment(os.environ))
                )
                print(f"without {without:.2f} ns, counted {counted:.2f} ns: +{counted - without:.2f} ns")
    finally:
        counting.close()


if __name__ == "__main__":
    main()
