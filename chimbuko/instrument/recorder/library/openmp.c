/* Constructs of OpenMP as calls of the threads that execute them, and the tool of OpenMP 5 (OMPT) that hears of them:
 * the runtimes of LLVM, Intel and AMD call it. GCC's has no such interface, see gomp.c.
 *
 * The threads of a region are matched by its number, and those at a barrier by that and the barrier's own. A worker
 * hears of the end of a region when it gets to the next one, so its wait for the others is written then, with the
 * time at which the master has seen all of them come. */
#define _GNU_SOURCE
#include "openmp.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#define SWITCH_VARIABLE "CHIMBUKO_NO_OPENMP"
#define LEAST_LOCK_NS 1000 /* waits for locks that are shorter are not recorded: a call costs a tenth of that */

enum {
    TEAMS = 1 << 10, /* whose ends are remembered */
    MOST_NESTED = 4, /* regions in each other; those further in have no barriers */
    MOST_TASKS = 16, /* explicit tasks of a thread that are open at the same time */
    MOST_OPEN = 16,
    LOCKS = 1 << 10,
    HOLDERS = 256
};

static struct team {
    _Atomic uint64_t number;
    _Atomic Key place;
    _Atomic int64_t ended_ns;
} teams[TEAMS];
static _Atomic uint64_t last_team;
static _Atomic uint32_t holders[LOCKS];     /* thread that had a lock last, + 1; locks may share a place */
static unsigned holder_names[HOLDERS];

static __thread __attribute__((tls_model("initial-exec"))) struct {
    struct region regions[MOST_NESTED];
    uint32_t depth;
    /* A wait for the end of a region, which is not written yet. */
    uint64_t awaited;
    Key awaited_place;
    int64_t awaited_since_ns;
    int64_t lock_since_ns;
    uint32_t lock_holder;
    uint32_t opened, tasks;
    Key open[MOST_OPEN]; /* of constructs whose end may have another place than their begin */
    const void *task[MOST_TASKS];
    Key task_key[MOST_TASKS];
} here;

bool is_openmp_wanted;

void prepare_openmp(void) { is_openmp_wanted = getenv(SWITCH_VARIABLE) == NULL && !is_only_counting; }

uint64_t begin_team(Key place)
{
    uint64_t number = atomic_fetch_add_explicit(&last_team, 1, memory_order_relaxed) + 1;
    struct team *team = &teams[number % TEAMS];
    atomic_store_explicit(&team->ended_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&team->place, place, memory_order_relaxed);
    atomic_store_explicit(&team->number, number, memory_order_release);
    return number;
}

Key place_of_team(uint64_t number)
{
    struct team *team = &teams[number % TEAMS];
    bool is_it = number != 0 && atomic_load_explicit(&team->number, memory_order_acquire) == number;
    return is_it ? atomic_load_explicit(&team->place, memory_order_relaxed) : 0;
}

void end_team(uint64_t number)
{
    struct team *team = &teams[number % TEAMS];
    if (number != 0 && atomic_load_explicit(&team->number, memory_order_relaxed) == number)
        atomic_store_explicit(&team->ended_ns, now_ns(), memory_order_release);
}

/* The same on all threads of a region for the same barrier of it, and another one for each. */
static int32_t number_of_barrier(uint64_t region, uint32_t barrier)
{
    return (int32_t)((region * UINT64_C(0x9e3779b1) + barrier * UINT64_C(0x85ebca6b)) & INT32_MAX);
}

/* `begun_ns` is when a thread has begun what it ends there, if no event of its own says that; else 0. */
static struct event arrival(int32_t number, int64_t begun_ns)
{
    return (struct event){.operation = COLLECTIVE,
                          .communicator = OPENMP_COMMUNICATOR,
                          .peer = -1,
                          .bytes = begun_ns,
                          .tag = number};
}

/* Record a call that is over. This thread has recorded nothing since it began. */
static void record_past(Key key, int64_t begin_ns, int64_t end_ns, const struct event *inside, unsigned counter)
{
    if (!acquire_for(key, FRAME, FROM))
        return;
    struct function *function = function_of(key);
    if (self.skipped > 0) {
        count_dropped(function, self.skip_count);
    } else if (function->state != RECORDED || !has_credit(function)) {
        count_left_out(function);
    } else if (self.depth == DEPTH || !has_room(self.depth + 5 + RESERVE)) {
        pass_over(function, &self.ring->dropped_calls);
    } else {
        int64_t last_ns = self.written == 0 ? 0 : self.events[(self.written - 1) & self.mask].time_ns;
        begin_ns = begin_ns < last_ns ? last_ns : begin_ns;
        end_ns = end_ns < begin_ns ? begin_ns : end_ns;
        push_call(key, ANY_FRAME, 0, begin_ns);
        if (inside != NULL) {
            struct event *event = &self.events[self.written & self.mask];
            *event = *inside;
            event->kind = counter != 0 ? COUNTER : OPERATION;
            event->time_ns = counter != 0 ? end_ns : begin_ns;
            publish();
        }
        pop_call(end_ns, 0);
        note_runtime(function, end_ns - begin_ns);
    }
    release();
}

/* Write the wait for the end of the last region, if it is known when that came. */
static void write_awaited(void)
{
    uint64_t number = here.awaited;
    if (number == 0)
        return;
    here.awaited = 0;
    struct team *team = &teams[number % TEAMS];
    int64_t ended_ns = atomic_load_explicit(&team->ended_ns, memory_order_acquire);
    if (ended_ns == 0 || atomic_load_explicit(&team->number, memory_order_acquire) != number)
        return;
    struct event came = arrival(number_of_barrier(number, 0), 0);
    record_past(with_construct(BARRIER, here.awaited_place), here.awaited_since_ns, ended_ns, &came, 0);
}

struct region *present_region(void)
{
    return here.depth == 0 || here.depth > MOST_NESTED ? NULL : &here.regions[here.depth - 1];
}

void begin_part(uint64_t number, Key place, uint32_t index)
{
    bool is_worker = index != 0;
    write_awaited();
    if (UNLIKELY(self.ring == NULL))
        wanted_number = index;
    if (here.depth++ < MOST_NESTED)
        here.regions[here.depth - 1] = (struct region){.number = number,
                                                       .place = place,
                                                       .begun_ns = is_worker || self.ring == NULL ? 0 : now_ns(),
                                                       .is_worker = is_worker};
    if (is_worker && place != 0)
        enter_region(place);
}

void await_end(void)
{
    struct region *region = present_region();
    if (region == NULL || !region->is_worker || region->place == 0)
        return;
    leave(region->place);
    here.awaited = region->number;
    here.awaited_place = region->place;
    here.awaited_since_ns = now_ns();
    region->place = 0;
}

void end_part(void)
{
    await_end();
    if (here.depth > 0)
        here.depth--;
}

/* Whether the innermost open call is recorded, and of this key. */
static bool is_in(Key key)
{
    return self.ring != NULL && self.skipped == 0 && self.depth > 0 && self.ring->stack[self.depth - 1] == key;
}

void come_to_barrier(Key key, bool is_last)
{
    struct region *region = present_region();
    enter_region(key);
    if (region == NULL)
        return;
    uint32_t barrier = is_last ? 0 : ++region->barriers;
    if (region->number != 0 && is_in(key))
        record(OPERATION, arrival(number_of_barrier(region->number, barrier), region->begun_ns));
    region->begun_ns = 0;
}

static uint32_t place_of_lock(uint64_t lock) { return (uint32_t)((lock * UINT64_C(0x9e3779b97f4a7c15)) >> 54); }

void want_lock(uint64_t lock)
{
    here.lock_holder = atomic_load_explicit(&holders[place_of_lock(lock)], memory_order_relaxed);
    here.lock_since_ns = now_ns();
}

/* Number of the name of the counter that says who had a lock; 0 for none. */
static unsigned name_of_holder(uint32_t holder)
{
    if (holder == 0 || holder > HOLDERS || !acquire())
        return 0;
    unsigned *known = &holder_names[holder - 1];
    unsigned number = __atomic_load_n(known, __ATOMIC_RELAXED);
    if (number == 0) {
        char name[64];
        snprintf(name, sizeof name, "Waited for a lock: held by thread %u", holder - 1);
        __atomic_store_n(known, number = number_of_name(name), __ATOMIC_RELAXED);
    }
    release();
    return number;
}

void have_lock(enum Construct what, uint64_t lock, const void *place)
{
    int64_t since_ns = here.lock_since_ns;
    here.lock_since_ns = 0;
    int64_t now = now_ns();
    if (since_ns != 0 && now - since_ns >= LEAST_LOCK_NS) {
        unsigned name = name_of_holder(here.lock_holder);
        struct event held = {.value = 1e-3 * (double)(now - since_ns), .tag = (int32_t)(name - 1)};
        record_past(key_of_construct(what, place), since_ns, now, name == 0 ? NULL : &held, name);
    }
    if (self.ring != NULL)
        atomic_store_explicit(&holders[place_of_lock(lock)], (uint32_t)self.ring->thread + 1, memory_order_relaxed);
}

void end_openmp_of_thread(void)
{
    write_awaited();
    memset(&here, 0, sizeof here);
}

/* In a forked child: who waited, and for what, is its parent's. */
void forget_openmp(void)
{
    memset(&here, 0, sizeof here);
    memset((void *)holders, 0, sizeof holders);
    memset(holder_names, 0, sizeof holder_names);
}

/* --- The parts of the standard's interface that are needed here --- */

enum Callback {
    THREAD_BEGIN = 1,
    PARALLEL_BEGIN = 3,
    PARALLEL_END,
    TASK_CREATE,
    TASK_SCHEDULE,
    IMPLICIT_TASK,
    TARGET_REGION,
    WORK = 20,
    SYNC_REGION = 23,
    MUTEX_ACQUIRE = 26,
    MUTEX_ACQUIRED
};
enum { WORKER_THREAD = 2 };
enum { SCOPE_BEGIN = 1, SCOPE_END };
enum { INITIAL_TASK = 1, EXPLICIT_TASK = 4 };
enum { TASK_COMPLETE = 1, TASK_YIELD, TASK_CANCEL, TASK_DETACH, TASK_EARLY_FULFILL, TASK_LATE_FULFILL, TASK_SWITCH };
enum {
    SYNC_BARRIER = 1,
    SYNC_IMPLICIT,
    SYNC_EXPLICIT,
    SYNC_IMPLEMENTATION,
    SYNC_TASKWAIT,
    SYNC_TASKGROUP,
    SYNC_REDUCTION,
    SYNC_WORKSHARE,
    SYNC_PARALLEL
};
enum { MUTEX_LOCK = 1, MUTEX_TEST_LOCK, MUTEX_NEST_LOCK, MUTEX_TEST_NEST_LOCK, MUTEX_CRITICAL, MUTEX_ATOMIC, MUTEX_ORDERED };
union data {
    uint64_t value;
    void *pointer;
};
typedef void (*function)(void);
typedef function (*lookup)(const char *name);
typedef int (*set_callback)(int event, function callback);
struct tool {
    int (*initialize)(lookup find, int device, union data *of_tool);
    void (*finalize)(union data *of_tool);
    union data of_tool;
};
typedef struct tool *start_tool(unsigned version, const char *runtime);

static void name_thread(int type, union data *of_thread)
{
    (void)of_thread;
    if (type == WORKER_THREAD)
        prctl(PR_SET_NAME, "openmp_worker", 0, 0, 0);
}

static void parallel_begin(union data *task, const void *frame, union data *of_region, unsigned wanted, int flags,
                           const void *place)
{
    (void)task, (void)frame, (void)wanted, (void)flags;
    Key key = key_of_construct(PARALLEL, place);
    of_region->value = begin_team(key);
    enter_region(key);
}

static void parallel_end(union data *of_region, union data *task, int flags, const void *place)
{
    (void)task, (void)flags;
    Key begun = place_of_team(of_region->value);
    leave(begun != 0 ? begun : key_of_construct(PARALLEL, place));
}

/* Constructs that nest on a thread. */
static bool begin_construct(Key key)
{
    if (here.opened++ >= MOST_OPEN)
        return false;
    here.open[here.opened - 1] = key;
    return true;
}

static void end_construct(void)
{
    if (here.opened == 0)
        return;
    if (--here.opened < MOST_OPEN)
        leave(here.open[here.opened]);
}

static void implicit_task(int end, union data *of_region, union data *task, unsigned threads, unsigned index, int flags)
{
    (void)task, (void)threads;
    if (flags & INITIAL_TASK)
        return;
    if (end == SCOPE_END) {
        end_part();
    } else {
        uint64_t number = of_region == NULL ? 0 : of_region->value;
        begin_part(number, place_of_team(number), index);
    }
}

static enum Construct construct_of_work(int type)
{
    switch (type) {
    case 2:
        return SECTIONS;
    case 3:
    case 4:
        return SINGLE;
    case 5:
    case 8:
        return WORKSHARE;
    default:
        return LOOP;
    }
}

static void work(int type, int end, union data *of_region, union data *task, uint64_t count, const void *place)
{
    (void)of_region, (void)task, (void)count;
    enum { OTHER_OF_SINGLE = 4 };
    if (type == OTHER_OF_SINGLE)
        return;
    Key key = key_of_construct(construct_of_work(type), place);
    if (end == SCOPE_END)
        end_construct();
    else if (end == SCOPE_BEGIN && begin_construct(key))
        enter_region(key);
}

static void sync_region(int kind, int end, union data *of_region, union data *task, const void *place)
{
    (void)of_region, (void)task;
    struct region *region = present_region();
    if (kind == SYNC_REDUCTION)
        return;
    if (kind == SYNC_TASKWAIT || kind == SYNC_TASKGROUP) {
        Key key = key_of_construct(TASKWAIT, place);
        if (end == SCOPE_END)
            end_construct();
        else if (begin_construct(key))
            enter_region(key);
        return;
    }
    bool is_worker = region != NULL && region->is_worker;
    /* A worker is not told where its region ends. */
    bool is_last = kind == SYNC_PARALLEL || (is_worker && place == NULL) ||
                   (region != NULL && place != NULL && with_construct(PARALLEL, (Key)(uintptr_t)place) == region->place);
    if (end == SCOPE_END) {
        if (is_last && is_worker)
            return;
        end_construct();
        if (is_last && region != NULL)
            end_team(region->number);
        return;
    }
    if (is_last && is_worker) {
        await_end();
        return;
    }
    Key key = is_last && region != NULL && region->place != 0 ? with_construct(BARRIER, region->place)
                                                              : key_of_construct(BARRIER, place);
    if (begin_construct(key))
        come_to_barrier(key, is_last);
}

static void mutex_acquire(int kind, unsigned hint, unsigned how, uint64_t lock, const void *place)
{
    (void)hint, (void)how, (void)place;
    if (kind != MUTEX_ATOMIC)
        want_lock(lock);
}

static void mutex_acquired(int kind, uint64_t lock, const void *place)
{
    if (kind != MUTEX_ATOMIC)
        have_lock(kind == MUTEX_CRITICAL ? CRITICAL : kind == MUTEX_ORDERED ? ORDERED : LOCK, lock, place);
}

static void task_create(union data *parent, const void *frame, union data *task, int flags, int dependences,
                        const void *place)
{
    (void)parent, (void)frame, (void)dependences;
    if (flags & EXPLICIT_TASK)
        task->value = key_of_construct(TASK, place);
}

/* Tasks nest on a thread: one that is suspended is below those that run meanwhile, until it goes on. */
static void leave_tasks_above(uint32_t count)
{
    while (here.tasks > count)
        leave(here.task_key[--here.tasks]);
}

static void task_schedule(union data *before, int status, union data *after)
{
    uint32_t at = here.tasks;
    if (status != TASK_SWITCH && status != TASK_YIELD && status != TASK_EARLY_FULFILL && status != TASK_LATE_FULFILL) {
        while (at > 0 && here.task[at - 1] != before)
            at--;
        if (at > 0)
            leave_tasks_above(at - 1);
    }
    if (after == NULL || status == TASK_LATE_FULFILL)
        return;
    bool is_explicit = after->value >> 62 == 1;
    for (at = here.tasks; at > 0 && here.task[at - 1] != after; at--)
        ;
    if (at > 0) {
        leave_tasks_above(at);
    } else if (is_explicit && here.tasks < MOST_TASKS) {
        here.task[here.tasks] = after;
        here.task_key[here.tasks++] = after->value;
        enter_region(after->value);
    }
}

static void target_region(int kind, int end, int device, union data *task, uint64_t number, const void *place)
{
    (void)kind, (void)device, (void)task, (void)number;
    Key key = key_of_construct(TARGET, place);
    if (end == SCOPE_END)
        end_construct();
    else if (end == SCOPE_BEGIN && begin_construct(key))
        enter_region(key);
}

static int initialize(lookup find, int device, union data *of_tool)
{
    static const struct {
        enum Callback event;
        function callback;
    } callbacks[] = {
        {PARALLEL_BEGIN, (function)parallel_begin}, {PARALLEL_END, (function)parallel_end},
        {IMPLICIT_TASK, (function)implicit_task},   {WORK, (function)work},
        {SYNC_REGION, (function)sync_region},       {MUTEX_ACQUIRE, (function)mutex_acquire},
        {MUTEX_ACQUIRED, (function)mutex_acquired}, {TASK_CREATE, (function)task_create},
        {TASK_SCHEDULE, (function)task_schedule},   {TARGET_REGION, (function)target_region},
    };
    (void)device, (void)of_tool;
    set_callback set = (set_callback)find("ompt_set_callback");
    if (set == NULL)
        return 0;
    set(THREAD_BEGIN, (function)name_thread);
    for (unsigned number = 0; is_openmp_wanted && number < sizeof callbacks / sizeof *callbacks; number++)
        set(callbacks[number].event, callbacks[number].callback);
    return 1;
}

static void finalize(union data *of_tool)
{
    (void)of_tool;
}

/* The runtime calls this, and takes one tool only: any other tool comes first. */
EXPORTED struct tool *ompt_start_tool(unsigned version, const char *runtime)
{
    static struct tool ours = {.initialize = initialize, .finalize = finalize};
    start_tool *next = (start_tool *)dlsym(RTLD_NEXT, "ompt_start_tool");
    struct tool *theirs = next == NULL ? NULL : next(version, runtime);
    const char *libraries = getenv("OMP_TOOL_LIBRARIES");
    if (theirs != NULL)
        return theirs;
    return libraries != NULL && *libraries != '\0' ? NULL : &ours;
}
