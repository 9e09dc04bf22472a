/* What a thread did in the time between two of its events that are far apart: how much it ran, and, where the machine
 * counts that, how many instructions and cycles that were. Both recorders use it: that of native programs, and that of
 * Python's functions. */
#ifndef CHIMBUKO_WORK_H
#define CHIMBUKO_WORK_H

#include <stdbool.h>
#include <stdint.h>

/* Counters are read at the first event after so long, which costs a thread 0.1 % of its time at most. */
#define READ_NS INT64_C(1000000)

/* CPU time (us), page faults, time off the core (us), instructions, cycles, cache misses. */
#define WORK_COUNTS 6

/* Counts since the thread began; 0 for what the machine does not count. */
struct work {
    uint64_t counts[WORK_COUNTS];
};

/* The counters of one thread. */
struct work_reader {
    bool is_open;
    int file; /* of the group of the machine's counters; 0 or less for none */
    uint64_t id;
};

/* Names of the counts. */
extern const char *const work_names[WORK_COUNTS] __attribute__((visibility("hidden")));

void read_work(struct work_reader *own, struct work *now) __attribute__((visibility("hidden"), cold));
/* What was counted between two readings; 0 where that is not known. */
uint64_t work_between(const struct work *last, const struct work *now, unsigned number)
    __attribute__((visibility("hidden")));
void end_work(struct work_reader *own) __attribute__((visibility("hidden")));

#endif
