/* Which functions are worth what it costs to record them. Pure: the same observations lead to the same decisions.
 *
 * Time is cut into looks. After each, functions are kept or left out for the next one, such that what is recorded
 * is expected to cost no more than a given part of the time of the threads. */
#ifndef CHIMBUKO_BUDGET_H
#define CHIMBUKO_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#define LOOK_NS INT64_C(100000000)
/* CPU time for a call that is recorded: in the program itself, where 60 ns are its own and the others go to what it takes
 * from the program's caches, and in the drain. At 2 % it leaves a thread 50,000 calls a second, 100,000 events. */
#define CALL_PRICE_NS (150.0 + PRICE_BESIDE_NS)
#define PRICE_BESIDE_NS 250.0

enum { MOST_FUNCTIONS = 1 << 12, SAMPLE_CALLS = 64 };

enum Decision { UNKNOWN_YET, KEPT, LEFT_OUT, SAMPLED };

/* What is known of a function. All zero at first. */
struct estimate {
    double calls_per_s;
    double square_us2;    /* mean of the squares of runtimes: of their mean and their spread together */
    double weight;        /* number of calls that it is from */
    uint32_t looks_out;   /* since it was kept or sampled */
    uint32_t credit;      /* calls that are meant to be recorded until the next look */
    uint32_t decision;
    uint32_t is_poll;     /* its runtimes say nothing */
};

/* What was seen of a function in one look. */
struct observation {
    uint64_t calls;      /* recorded and left out, in the time in which all were counted */
    int64_t counted_ns;  /* that time; 0 for none */
    int64_t since_ns;    /* time that it stands for, at least as long */
    uint64_t recorded;   /* calls whose runtimes are known */
    double squares_us2;  /* sum of the squares of these */
};

struct budget {
    double overhead; /* part of the threads' time, as 0.02 */
    uint32_t next;   /* row at which the next samples begin */
};

/* Number of calls that may be recorded in a look. As many again are there for bursts, and for new functions. */
__attribute__((visibility("hidden"))) double calls_of(const struct budget *budget, uint32_t threads);

/* Decide for the next look, in which so many threads are expected to run. */
__attribute__((visibility("hidden"))) void decide(struct budget *budget, struct estimate *functions,
                                                  const struct observation *seen, uint32_t count, uint32_t threads);

/* What recording has cost beside the program, in the drain and in the thread that looks. All zero at first. */
struct beside {
    double unexpected_ns; /* beyond the price of the calls, and not saved since then */
    int64_t spent_ns;     /* since the process has begun */
};

/* Part of the threads' time, of `overhead`, that is left for calls, now that so much was spent since the process has
 * begun, and so many calls were recorded in the last look, of which the threads together have had so much time. */
__attribute__((visibility("hidden"))) double left_for_calls(struct beside *beside, double overhead, int64_t spent_ns,
                                                            uint64_t recorded, int64_t passed_ns);

#endif
