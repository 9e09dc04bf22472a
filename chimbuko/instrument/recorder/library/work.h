/* What a thread did in the time between two of its events that are far apart: how much it ran, and, where the machine
 * counts that, how many instructions and cycles that were. */
#ifndef CHIMBUKO_WORK_H
#define CHIMBUKO_WORK_H

#include <stdbool.h>
#include <stdint.h>

/* Counters are read at the first event after so long, which costs a thread 0.1 % of its time at most. */
#define READ_NS INT64_C(1000000)

/* Counts since the thread began. */
struct work {
    uint64_t cpu_ns;
    uint64_t faults;
    uint64_t hardware[3]; /* instructions, cycles, cache misses; 0 where the machine does not count them */
};

void count_work(int64_t now) __attribute__((visibility("hidden"), cold));
void end_work(void) __attribute__((visibility("hidden")));

#endif
