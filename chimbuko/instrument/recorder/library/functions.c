/* Functions of the program: those that the compiler instruments, and regions that the program names. */
#include "callers.h"
#include "callsites.h"
#include "hooks.h"
#include "recorder.h"

#include <string.h>
#include <sys/resource.h>

static void note_hook(enum Hook hook, Key key, uintptr_t return_address, uintptr_t caller)
{
    if (LIKELY(!is_noting))
        return;
    const struct function *function = function_of(key);
    if (function->state == NOTED)
        note_site(hook, function->row, (uintptr_t)key, return_address, caller);
}

/* The hooks jump here, so that frame and return address are theirs. Flattened, as a part that were split off would
 * have a frame of its own, and would cost more. */
static __attribute__((noinline, flatten)) void enter_function(void *function, void *caller)
{
    Key key = (Key)(uintptr_t)function;
    if (UNLIKELY(self.callers > 0))
        end_callers();
    enter_at(key, (uintptr_t)caller);
    note_hook(ENTRY_HOOK, key, FROM, (uintptr_t)caller);
}

static __attribute__((noinline, flatten)) void leave_function(void *function, void *caller)
{
    Key key = (Key)(uintptr_t)function;
    leave_at(key, (uintptr_t)caller);
    note_hook(EXIT_HOOK, key, FROM, (uintptr_t)caller);
}

EXPORTED void __cyg_profile_func_enter(void *function, void *caller)
{
    Key key = (Key)(uintptr_t)function;
    const struct function *known = &functions[slot_of(key)];
    if (LIKELY(is_passed(known, key, FRAME)))
        self.ring->left_out[known->row]++;
    else
        enter_function(function, caller);
}

EXPORTED void __cyg_profile_func_exit(void *function, void *caller)
{
    Key key = (Key)(uintptr_t)function;
    const struct function *known = &functions[slot_of(key)];
    if (LIKELY(is_passed(known, key, FRAME)) && is_within_innermost(key, FRAME))
        return;
    leave_function(function, caller);
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
    static unsigned user, kernel, thread, memory;
    struct rusage used;
    struct timespec own;
    if (LIKELY(!is_usage_wanted) || process == NULL)
        return;
    getrusage(RUSAGE_SELF, &used);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &own);
    count_known(&user, USER_TIME, 1e6 * (double)used.ru_utime.tv_sec + (double)used.ru_utime.tv_usec);
    count_known(&kernel, SYSTEM_TIME, 1e6 * (double)used.ru_stime.tv_sec + (double)used.ru_stime.tv_usec);
    count_known(&thread, THREAD_TIME, 1e6 * (double)own.tv_sec + 1e-3 * (double)own.tv_nsec);
    count_known(&memory, PEAK_MEMORY, (double)used.ru_maxrss);
}

EXPORTED void chimbuko_enter(unsigned name)
{
    if (name == 0)
        return;
    count_usage();
    /* It lies in those that have called MPI already only where it was begun there. */
    if (UNLIKELY(self.callers > 0))
        find_callers(NAMED | (name - 1), FRAME, FROM, true);
    enter_region(NAMED | (name - 1));
}

EXPORTED void chimbuko_leave(unsigned name)
{
    if (name == 0)
        return;
    count_usage();
    leave(NAMED | (name - 1));
}

/* Return the row of a group of processes; 0 where there is no room. */
EXPORTED unsigned chimbuko_group(uint64_t identity, unsigned size, int rank)
{
    if (!acquire())
        return 0;
    release();
    return new_group(identity, size, rank);
}

/* Record a call that ends now, and in which this thread has waited for a collective operation. It cannot have begun
 * before the last event of the thread. */
EXPORTED void chimbuko_waited(unsigned name, int64_t begin_ns, unsigned group, int number)
{
    Key key = NAMED | (name - 1);
    if (name == 0 || group == 0 || !acquire())
        return;
    if (self.skipped == 0 && self.depth < DEPTH && has_room(self.depth + 3) && has_credit(function_of(key))) {
        int64_t last = self.written == 0 ? 0 : self.events[(self.written - 1) & self.mask].time_ns;
        int64_t begin = begin_ns > last ? begin_ns : last;
        push_call(key, ANY_FRAME, 0, begin);
        struct event *operation = next_event(OPERATION, begin);
        operation->operation = COLLECTIVE;
        operation->communicator = (uint16_t)group;
        operation->peer = -1;
        operation->bytes = 0;
        operation->tag = number;
        operation->request = 0;
        publish();
        pop_call(now_ns(), 0);
    }
    release();
}
