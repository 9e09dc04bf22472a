/* Functions that call MPI in programs that no compiler has instrumented, found on the stack at each call. */
#ifndef CHIMBUKO_CALLERS_H
#define CHIMBUKO_CALLERS_H

#include "recorder.h"

/* Whether the compiler has instrumented functions of this program: then nobody has to look for them. */
extern bool has_functions __attribute__((visibility("hidden")));

/* End the functions that were left since the last call, and open those from which one is made, unless it is a region.
 * `frame` is that of the function that is called, of which this is part, and `site` is where it returns to. */
COLD void find_callers(Key called, uintptr_t frame, uintptr_t site, bool is_region);

/* End the functions that were found: all of them have ended, or others tell from now on. */
COLD void end_callers(void);

__attribute__((visibility("hidden"))) void forget_callers_of_thread(void);

/* A part of MPI's function, whose frame and place these are. */
static inline __attribute__((always_inline)) void enter_mpi(Key key)
{
    if (LIKELY(!has_functions))
        find_callers(key, FRAME, FROM, false);
    enter(key);
}

#endif
