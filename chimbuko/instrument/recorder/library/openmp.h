/* Constructs of OpenMP as calls, by whichever runtime reports them: openmp.c has that of LLVM, gomp.c that of GCC. */
#ifndef CHIMBUKO_OPENMP_H
#define CHIMBUKO_OPENMP_H

#include "recorder.h"

/* A region that this thread is in. */
struct region {
    uint64_t number; /* of the region in its process; 0 where its begin was not seen */
    Key place;       /* of the region, as the key of its calls */
    Key loop;        /* open loop under GCC's runtime; 0 for none */
    int64_t begun_ns; /* of the master's own part, which has no event; 0 for workers */
    uint32_t barriers;
    uint32_t is_worker;
};

extern bool is_openmp_wanted __attribute__((visibility("hidden")));

static inline Key key_of_construct(enum Construct what, const void *place)
{
    return OPENMP | (Key)what << CONSTRUCT_SHIFT | ((Key)(uintptr_t)place & PLACE_MASK);
}

static inline Key with_construct(enum Construct what, Key place)
{
    return OPENMP | (Key)what << CONSTRUCT_SHIFT | (place & PLACE_MASK);
}

/* Give a region its number; `place` is the key of its calls. */
__attribute__((visibility("hidden"))) uint64_t begin_team(Key place);
/* The key of the calls of a region; 0 where it is not known any more. */
__attribute__((visibility("hidden"))) Key place_of_team(uint64_t number);
/* All threads have come to the end of a region. */
__attribute__((visibility("hidden"))) void end_team(uint64_t number);

/* This thread begins and ends its part of a region; the master has the index 0. */
__attribute__((visibility("hidden"))) void begin_part(uint64_t number, Key place, uint32_t index);
__attribute__((visibility("hidden"))) struct region *present_region(void);
__attribute__((visibility("hidden"))) void end_part(void);
/* A worker waits from now on for the end of its region, of which it hears later than that comes. */
__attribute__((visibility("hidden"))) void await_end(void);

/* A call of a barrier begins, which is the next one of this thread's region, or the last one. */
__attribute__((visibility("hidden"))) void come_to_barrier(Key key, bool is_last);

/* A thread wants a lock, and has it. */
__attribute__((visibility("hidden"))) void want_lock(uint64_t lock);
__attribute__((visibility("hidden"))) void have_lock(enum Construct what, uint64_t lock, const void *place);

__attribute__((visibility("hidden"))) void prepare_openmp(void);
__attribute__((visibility("hidden"))) void end_openmp_of_thread(void);
__attribute__((visibility("hidden"))) void forget_openmp(void);

#endif
