/* Regions of programs that GCC has compiled. Its runtime has no interface for tools, so its entries are interposed:
 * the bodies of regions are wrapped, and calls of loops, barriers, critical sections and locks are recorded. It hides
 * the rest: loops with a static schedule are no calls at all, and tasks are only counted.
 *
 * LLVM's runtime has these entries, too, and reports what they do by OMPT: there they are passed on. */
#define _GNU_SOURCE
#include "openmp.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

/* --- The functions that the program means --- */

enum { SITES = 256 };

struct entry {
    const char *name;
    void *_Atomic found; /* in the libraries that all see; with the lowest bit set where it is to be passed on */
};

/* Where that is none, a library has a runtime of its own, as those of Python's packages do. */
static struct site {
    _Atomic uintptr_t from; /* 0 in a free row; written last */
    const struct entry *entry;
    void *found;
} sites[SITES];

static void *marked(void *found)
{
    Dl_info info;
    void *library = dladdr(found, &info) != 0 ? dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    bool is_llvm = library != NULL && dlsym(library, "__kmpc_fork_call") != NULL;
    if (library != NULL)
        dlclose(library);
    return is_llvm ? (void *)((uintptr_t)found | 1) : found;
}

struct search {
    const char *name;
    void *found;
};

/* Look in a library, and in those that it needs: none of them is the recorder. */
static void *found_in(const char *path, const char *name)
{
    void *library = path == NULL || *path == '\0' ? NULL : dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    void *found = library == NULL ? NULL : dlsym(library, name);
    if (library != NULL)
        dlclose(library);
    return found;
}

static int look_into(struct dl_phdr_info *module, size_t size, void *data)
{
    (void)size;
    struct search *search = data;
    if (strstr(module->dlpi_name, "gomp") != NULL || strstr(module->dlpi_name, "omp.so") != NULL ||
        strstr(module->dlpi_name, "omp5.so") != NULL)
        search->found = found_in(module->dlpi_name, search->name);
    return search->found != NULL;
}

static void *find_for(const struct entry *entry, uintptr_t from)
{
    uint32_t first = (uint32_t)(((from ^ (uintptr_t)entry) * UINT64_C(0x9e3779b97f4a7c15)) >> 56);
    struct site *site = &sites[first];
    if (atomic_load_explicit(&site->from, memory_order_acquire) == from && site->entry == entry)
        return site->found;
    Dl_info info;
    struct search search = {.name = entry->name};
    if (dladdr((void *)from, &info) != 0)
        search.found = found_in(info.dli_fname, entry->name);
    if (search.found == NULL)
        dl_iterate_phdr(look_into, &search);
    if (search.found == NULL)
        return NULL;
    void *found = marked(search.found);
    uintptr_t is_free = 0;
    /* A row that is being filled has the address of no code. */
    if (atomic_compare_exchange_strong(&site->from, &is_free, 1)) {
        site->entry = entry;
        site->found = found;
        atomic_store_explicit(&site->from, from, memory_order_release);
    }
    return found;
}

/* The function that an entry stands for, where `from` calls it; with the lowest bit set where it is passed on. */
static inline uintptr_t meant(struct entry *entry, uintptr_t from)
{
    void *found = atomic_load_explicit(&entry->found, memory_order_relaxed);
    if (UNLIKELY(found == NULL)) {
        found = dlsym(RTLD_NEXT, entry->name);
        found = found != NULL ? marked(found) : NULL;
        atomic_store_explicit(&entry->found, found, memory_order_relaxed);
        if (found == NULL)
            found = find_for(entry, from);
    }
    return (uintptr_t)found;
}

/* Define `next`, the function that is meant, and whether it is only passed on. */
#define NEXT(name)                                                                                                     \
    static struct entry entry_of_it = {#name, NULL};                                                                   \
    const void *from __attribute__((unused)) = __builtin_return_address(0);                                            \
    uintptr_t found_for_it = meant(&entry_of_it, (uintptr_t)from);                                                     \
    __typeof__(&name) next = (__typeof__(&name))(found_for_it & ~(uintptr_t)1);                                        \
    bool is_passed_on = (found_for_it & 1) != 0 || !is_openmp_wanted

/* --- Regions --- */

struct body {
    void (*run)(void *);
    void *data;
    Key key;
    uint64_t number;
    uintptr_t master; /* stack pointer's place of the thread that encounters the region */
};

static __thread __attribute__((tls_model("initial-exec"))) char mark; /* its address identifies a thread */

/* Number of a worker in its team, where that matters: to one that has none in the trace yet. */
static uint32_t index_of_worker(void)
{
    int (*number_of_thread)(void) = NULL;
    if (self.ring == NULL)
        number_of_thread = (int (*)(void))dlsym(RTLD_DEFAULT, "omp_get_thread_num");
    int number = number_of_thread == NULL ? 0 : number_of_thread();
    return number > 0 ? (uint32_t)number : UINT32_MAX;
}

static __attribute__((noinline)) void run_body(void *given)
{
    struct body body = *(struct body *)given;
    bool is_worker = body.master != (uintptr_t)&mark;
    begin_part(body.number, body.key, is_worker ? index_of_worker() : 0);
    body.run(body.data);
    if (!is_worker)
        come_to_barrier(with_construct(BARRIER, body.key), true);
    end_part();
}

/* The body has the name of the function in the source, whatever that is part of; places are behind calls. */
static void begin_region_of(struct body *body, void (*run)(void *), void *data)
{
    Key key = key_of_construct(PARALLEL, (const char *)(uintptr_t)run + 1);
    *body = (struct body){run, data, key, begin_team(key), (uintptr_t)&mark};
    enter_region(key);
}

static void end_region_of(const struct body *body)
{
    end_team(body->number);
    leave(with_construct(BARRIER, body->key));
    leave(body->key);
}

typedef void (*routine)(void *);
typedef unsigned long long ull;

#define REGION(name, parameters, ...)                                                                                  \
    EXPORTED void name parameters;                                                                                     \
    EXPORTED void name parameters                                                                                      \
    {                                                                                                                  \
        NEXT(name);                                                                                                    \
        if (is_passed_on) {                                                                                            \
            next(__VA_ARGS__);                                                                                         \
            return;                                                                                                    \
        }                                                                                                              \
        struct body body;                                                                                              \
        begin_region_of(&body, run, data);                                                                       \
        run = run_body;                                                                                                \
        data = &body;                                                                                                  \
        next(__VA_ARGS__);                                                                                             \
        end_region_of(&body);                                                                                          \
    }

REGION(GOMP_parallel, (routine run, void *data, unsigned threads, unsigned flags), run, data, threads, flags)
REGION(GOMP_parallel_sections, (routine run, void *data, unsigned threads, unsigned count, unsigned flags), run, data,
       threads, count, flags)

#define REGION_WITH_LOOP(schedule)                                                                                     \
    REGION(GOMP_parallel_loop_##schedule,                                                                              \
           (routine run, void *data, unsigned threads, long start, long end, long step, long chunk, unsigned flags),   \
           run, data, threads, start, end, step, chunk, flags)
#define REGION_WITH_LOOP_OF_RUNTIME(schedule)                                                                          \
    REGION(GOMP_parallel_loop_##schedule,                                                                              \
           (routine run, void *data, unsigned threads, long start, long end, long step, unsigned flags), run, data,    \
           threads, start, end, step, flags)

REGION_WITH_LOOP(static)
REGION_WITH_LOOP(dynamic)
REGION_WITH_LOOP(guided)
REGION_WITH_LOOP(nonmonotonic_dynamic)
REGION_WITH_LOOP(nonmonotonic_guided)
REGION_WITH_LOOP_OF_RUNTIME(runtime)
REGION_WITH_LOOP_OF_RUNTIME(nonmonotonic_runtime)
REGION_WITH_LOOP_OF_RUNTIME(maybe_nonmonotonic_runtime)

EXPORTED unsigned GOMP_parallel_reductions(routine run, void *data, unsigned threads, unsigned flags);
EXPORTED unsigned GOMP_parallel_reductions(routine run, void *data, unsigned threads, unsigned flags)
{
    NEXT(GOMP_parallel_reductions);
    if (is_passed_on)
        return next(run, data, threads, flags);
    struct body body;
    begin_region_of(&body, run, data);
    unsigned count = next(run_body, &body, threads, flags);
    end_region_of(&body);
    return count;
}

/* --- Loops whose parts the runtime hands out --- */

static void begin_loop(enum Construct what, const void *from)
{
    struct region *region = present_region();
    if (region == NULL || region->loop != 0)
        return;
    region->loop = key_of_construct(what, from);
    enter_region(region->loop);
}

static void end_loop(void)
{
    struct region *region = present_region();
    if (region == NULL || region->loop == 0)
        return;
    leave(region->loop);
    region->loop = 0;
}

#define BEGINS(what, name, parameters, ...)                                                                            \
    EXPORTED bool name parameters;                                                                                     \
    EXPORTED bool name parameters                                                                                      \
    {                                                                                                                  \
        NEXT(name);                                                                                                    \
        if (!is_passed_on)                                                                                             \
            begin_loop(what, from);                                                                                    \
        return next(__VA_ARGS__);                                                                                      \
    }

#define LOOP_STARTS(schedule)                                                                                          \
    BEGINS(LOOP, GOMP_loop_##schedule##_start,                                                                         \
           (long start, long end, long step, long chunk, long *first, long *last), start, end, step, chunk, first,     \
           last)                                                                                                       \
    BEGINS(LOOP, GOMP_loop_ull_##schedule##_start,                                                                     \
           (bool is_up, ull start, ull end, ull step, ull chunk, ull *first, ull *last), is_up, start, end, step,      \
           chunk, first, last)
#define LOOP_OF_RUNTIME_STARTS(schedule)                                                                               \
    BEGINS(LOOP, GOMP_loop_##schedule##_start, (long start, long end, long step, long *first, long *last), start, end, \
           step, first, last)                                                                                          \
    BEGINS(LOOP, GOMP_loop_ull_##schedule##_start,                                                                     \
           (bool is_up, ull start, ull end, ull step, ull *first, ull *last), is_up, start, end, step, first, last)

LOOP_STARTS(static)
LOOP_STARTS(dynamic)
LOOP_STARTS(guided)
LOOP_STARTS(nonmonotonic_dynamic)
LOOP_STARTS(nonmonotonic_guided)
LOOP_STARTS(ordered_static)
LOOP_STARTS(ordered_dynamic)
LOOP_STARTS(ordered_guided)
LOOP_OF_RUNTIME_STARTS(runtime)
LOOP_OF_RUNTIME_STARTS(nonmonotonic_runtime)
LOOP_OF_RUNTIME_STARTS(maybe_nonmonotonic_runtime)
LOOP_OF_RUNTIME_STARTS(ordered_runtime)
BEGINS(LOOP, GOMP_loop_start,
       (long start, long end, long step, long schedule, long chunk, long *first, long *last, uintptr_t *reductions,
        void **memory),
       start, end, step, schedule, chunk, first, last, reductions, memory)
BEGINS(LOOP, GOMP_loop_ull_start,
       (bool is_up, ull start, ull end, ull step, long schedule, ull chunk, ull *first, ull *last,
        uintptr_t *reductions, void **memory),
       is_up, start, end, step, schedule, chunk, first, last, reductions, memory)

EXPORTED unsigned GOMP_sections_start(unsigned count);
EXPORTED unsigned GOMP_sections_start(unsigned count)
{
    NEXT(GOMP_sections_start);
    if (!is_passed_on)
        begin_loop(SECTIONS, from);
    return next(count);
}

/* --- Barriers --- */

/* A body that ends with a barrier jumps to it: then it has the place of the region. */
static Key key_of_barrier(uintptr_t from)
{
    enum { MOST_BYTES = 256 }; /* of the code of run_body */
    const struct region *region = present_region();
    bool is_jump = from - (uintptr_t)&run_body < MOST_BYTES && region != NULL && region->place != 0;
    return is_jump ? with_construct(BARRIER, region->place) : key_of_construct(BARRIER, (const void *)from);
}

#define WAITS(result, store, give, name)                                                                               \
    EXPORTED result name(void);                                                                                        \
    EXPORTED result name(void)                                                                                         \
    {                                                                                                                  \
        NEXT(name);                                                                                                    \
        if (is_passed_on)                                                                                              \
            return next();                                                                                             \
        end_loop();                                                                                                    \
        Key key = key_of_barrier((uintptr_t)from);                                                                     \
        come_to_barrier(key, false);                                                                                   \
        store next();                                                                                                  \
        leave(key);                                                                                                    \
        give;                                                                                                          \
    }

WAITS(void, , , GOMP_barrier)
WAITS(void, , , GOMP_loop_end)
WAITS(void, , , GOMP_sections_end)
WAITS(bool, bool is_cancelled =, return is_cancelled, GOMP_barrier_cancel)
WAITS(bool, bool is_cancelled =, return is_cancelled, GOMP_loop_end_cancel)
WAITS(bool, bool is_cancelled =, return is_cancelled, GOMP_sections_end_cancel)

#define ENDS(name)                                                                                                     \
    EXPORTED void name(void);                                                                                          \
    EXPORTED void name(void)                                                                                           \
    {                                                                                                                  \
        NEXT(name);                                                                                                    \
        next();                                                                                                        \
        if (!is_passed_on)                                                                                             \
            end_loop();                                                                                                \
    }

ENDS(GOMP_loop_end_nowait)
ENDS(GOMP_sections_end_nowait)

/* --- Critical sections and locks --- */

#define LOCKS(what, name, parameters, lock, ...)                                                                       \
    EXPORTED void name parameters;                                                                                     \
    EXPORTED void name parameters                                                                                      \
    {                                                                                                                  \
        NEXT(name);                                                                                                    \
        if (is_passed_on) {                                                                                            \
            next(__VA_ARGS__);                                                                                         \
            return;                                                                                                    \
        }                                                                                                              \
        want_lock(lock);                                                                                               \
        next(__VA_ARGS__);                                                                                             \
        have_lock(what, lock, from);                                                                                   \
    }

LOCKS(CRITICAL, GOMP_critical_start, (void), 1)
LOCKS(CRITICAL, GOMP_critical_name_start, (void **name), (uint64_t)(uintptr_t)name, name)
LOCKS(ORDERED, GOMP_ordered_start, (void), 2)
LOCKS(LOCK, omp_set_lock, (void *lock), (uint64_t)(uintptr_t)lock, lock)
LOCKS(LOCK, omp_set_nest_lock, (void *lock), (uint64_t)(uintptr_t)lock, lock)

/* --- What is only counted --- */

EXPORTED void GOMP_task(routine run, void *data, void (*copy)(void *, void *), long bytes, long alignment, bool is_asked,
                        unsigned flags, void **depend, int priority, void *detach);
EXPORTED void GOMP_task(routine run, void *data, void (*copy)(void *, void *), long bytes, long alignment, bool is_asked,
                        unsigned flags, void **depend, int priority, void *detach)
{
    NEXT(GOMP_task);
    if (!is_passed_on && process != NULL)
        atomic_fetch_add_explicit(&process->unseen_tasks, 1, memory_order_relaxed);
    next(run, data, copy, bytes, alignment, is_asked, flags, depend, priority, detach);
}
