/* Functions whose calls come to the recorder, and whether they are recorded now. */
#ifndef CHIMBUKO_LOOKS_H
#define CHIMBUKO_LOOKS_H

#include <stdbool.h>

#include "layout.h"

enum State {
    RECORDED,
    PASSED, /* calls are counted, and no more */
    NOTED   /* the same, and the places are noted at which the hooks are called */
};

enum { FUNCTION_SLOTS = 2 * FUNCTIONS };

struct function {
    _Atomic Key key; /* 0 in a free slot; written last */
    _Atomic uint32_t state;
    uint32_t row;
    _Atomic int32_t credit; /* calls that may be recorded */
    _Atomic uint32_t taken; /* calls of further credit since the pool was filled for the time `pool_number` */
    _Atomic uint32_t pool_number;
    _Atomic uint8_t was_out;
    _Atomic uint8_t is_irregular; /* its exits do not tell by the stack which call they end */
    _Atomic uint8_t is_poll;
    _Atomic uint8_t is_sampled; /* its credit is all it gets */
};

extern struct function functions[FUNCTION_SLOTS] __attribute__((visibility("hidden")));

extern bool is_noting __attribute__((visibility("hidden"))); /* some function is NOTED */

/* The slot of a function that is not in the first one; a new one if it was never seen. */
__attribute__((visibility("hidden"))) struct function *search_function(Key key);

/* Take further credit for a function; false where there is none, and it is passed from now on. */
__attribute__((visibility("hidden"))) bool renew_credit(struct function *function);

/* Leave a function out until the next look. */
__attribute__((visibility("hidden"))) void pass(struct function *function);

/* Say that calls of a function are not recorded from now on, before the first of them is not: who reads the events of
 * others knows then what they lack. */
__attribute__((visibility("hidden"))) void note_out(uint32_t row);

/* A thread more has a budget. */
__attribute__((visibility("hidden"))) void add_thread_to_pool(void);

__attribute__((visibility("hidden"))) void prepare_looks(void);
__attribute__((visibility("hidden"))) void begin_looks_of_process(void);
__attribute__((visibility("hidden"))) void forget_looks(void);
/* No look is taken between these two. */
__attribute__((visibility("hidden"))) void hold_looks(void);
__attribute__((visibility("hidden"))) void release_looks(void);

enum { MOST_RINGS = 1 << 12 };
extern struct ring *all_rings[MOST_RINGS] __attribute__((visibility("hidden")));
extern _Atomic uint32_t ring_count __attribute__((visibility("hidden")));

static inline uint32_t slot_of(Key key) { return (uint32_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 51); }

static inline struct function *function_of(Key key)
{
    struct function *first = &functions[slot_of(key)];
    bool is_it = atomic_load_explicit(&first->key, memory_order_acquire) == key;
    return __builtin_expect(is_it, 1) ? first : search_function(key);
}

#endif
