/* Functions of the program: those that the compiler instruments, and regions that the program names. */
#include "recorder.h"

#include <string.h>
#include <sys/resource.h>

/* Flattened, as a part that were split off would have a frame of its own, and would cost more. */
EXPORTED __attribute__((flatten)) void __cyg_profile_func_enter(void *function, void *caller)
{
    enter_at((Key)(uintptr_t)function, (uintptr_t)caller);
}

EXPORTED __attribute__((flatten)) void __cyg_profile_func_exit(void *function, void *caller)
{
    (void)caller;
    leave((Key)(uintptr_t)function, SHORT_NS);
}

/* Return a number for chimbuko_enter, chimbuko_leave and chimbuko_count; 0 where nothing is recorded. */
EXPORTED unsigned chimbuko_name(const char *name)
{
    Key key = key_of_name(name);
    return key == 0 ? 0 : (unsigned)(key & ~NAMED) + 1;
}

EXPORTED void chimbuko_count(unsigned name, double value)
{
    if (name != 0)
        record(COUNTER, (struct event){.value = value, .tag = (int32_t)(name - 1)});
}

static void count_known(unsigned *known, const char *name, double value)
{
    /* Threads that ask at the same time get the same number. */
    unsigned number = __atomic_load_n(known, __ATOMIC_RELAXED);
    if (number == 0)
        __atomic_store_n(known, number = chimbuko_name(name), __ATOMIC_RELAXED);
    chimbuko_count(number, value);
}

/* What the clocks say before a named call and before its end, where PERFFLOW_OPTIONS asks for that. */
static void count_usage(void)
{
    static unsigned user, thread, memory;
    struct rusage used;
    struct timespec own;
    if (LIKELY(!is_usage_wanted) || process == NULL)
        return;
    getrusage(RUSAGE_SELF, &used);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &own);
    count_known(&user, USER_TIME, 1e6 * (double)used.ru_utime.tv_sec + (double)used.ru_utime.tv_usec);
    count_known(&thread, THREAD_TIME, 1e6 * (double)own.tv_sec + 1e-3 * (double)own.tv_nsec);
    count_known(&memory, PEAK_MEMORY, (double)used.ru_maxrss);
}

EXPORTED void chimbuko_enter(unsigned name)
{
    if (name == 0)
        return;
    count_usage();
    enter_region(NAMED | (name - 1));
}

EXPORTED void chimbuko_leave(unsigned name)
{
    if (name == 0)
        return;
    count_usage();
    leave(NAMED | (name - 1), SHORT_NS);
}
