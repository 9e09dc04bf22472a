/* CUDA, by NVIDIA's CUPTI: kernels, copies and memsets as they have run, and calls of the runtime that launch them or
 * wait for them. CUPTI is the machine's own, loaded when CUDA begins. Its structures grow at their ends, and what is
 * read here stands where it stood in CUDA 11.6: a test holds this to NVIDIA's headers. */
#define _GNU_SOURCE
#include "gpu.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Versions of CUPTI's interface that are known: one by one up to CUDA 12, and by CUDA's own version from 13 on. */
enum { FIRST_KNOWN = 17, LAST_BEFORE_13 = 28, FIRST_OF_13 = 130000, LAST_OF_13 = 139999 };
enum { DRIVER = 1, RUNTIME = 2, ENTERS = 0, TAKEN_BY_ANOTHER = 39 };
enum { COPIED = 1, SET = 2, RAN = 10 };
enum { FUNCTIONS_OF_DOMAIN = 1024, BUFFER_BYTES = 1 << 20, MOST_BUFFERS = 32, PERIOD_MS = 100, READINGS = 10 };

struct kernel {
    uint32_t kind, unused[3];
    uint64_t begin, end, completed;
    uint32_t device, context, stream, grid[6], memory[4], correlation;
    int64_t grid_number;
    const char *name;
};

/* A copy; of a memset only from `bytes` on. */
struct copy {
    uint32_t kind;
    uint8_t direction, others[3];
    uint64_t bytes, begin, end;
    uint32_t device, context, stream, correlation;
};

struct call {
    uint32_t site;
    const char *function;
    const void *arguments, *result;
    const char *kernel;
    void *context;
    uint32_t context_number;
    uint64_t *own;
    uint32_t correlation;
};

typedef void on_call(void *, int domain, uint32_t function, const struct call *);
typedef void on_request(uint8_t **buffer, size_t *bytes, size_t *most_records);
typedef void on_complete(void *context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t used);

static struct {
    int (*GetVersion)(uint32_t *);
    int (*Subscribe)(void **, on_call *, void *);
    int (*EnableCallback)(uint32_t, void *, int, uint32_t);
    int (*GetCallbackName)(int, uint32_t, const char **);
    int (*ActivityRegisterCallbacks)(on_request *, on_complete *);
    int (*ActivityEnable)(int);
    int (*ActivityGetNextRecord)(uint8_t *, size_t, void **);
    int (*ActivityGetNumDroppedRecords)(void *, uint32_t, size_t *);
    int (*ActivityFlushAll)(uint32_t);
    int (*ActivityFlushPeriod)(uint32_t);
    int (*GetTimestamp)(uint64_t *);
} cupti;

static Key functions_of[RUNTIME + 1][FUNCTIONS_OF_DOMAIN];
static _Atomic int buffers;
/* The runtime is built on the driver: only the outermost call is recorded. */
static __thread uint32_t call_depth __attribute__((tls_model("initial-exec")));

static const char *const directions[] = {"",     "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
                                         "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"};
enum { DIRECTIONS = sizeof directions / sizeof *directions };

static bool find_functions(void *library)
{
    struct {
        void **into;
        const char *name;
    } wanted[] = {
#define WANTED(name) {(void **)&cupti.name, "cupti" #name}
        WANTED(GetVersion), WANTED(Subscribe), WANTED(EnableCallback), WANTED(GetCallbackName),
        WANTED(ActivityRegisterCallbacks), WANTED(ActivityEnable), WANTED(ActivityGetNextRecord),
        WANTED(ActivityGetNumDroppedRecords), WANTED(ActivityFlushAll), WANTED(ActivityFlushPeriod),
        WANTED(GetTimestamp),
#undef WANTED
    };
    for (size_t at = 0; at < sizeof wanted / sizeof *wanted; at++)
        if ((*wanted[at].into = dlsym(library, wanted[at].name)) == NULL)
            return false;
    return true;
}

/* The one that the program has loaded, as PyTorch does, comes before that of the machine. */
static void *open_cupti(void)
{
    static const char *const names[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8", "libcupti.so"};
    enum { NAMES_OF_IT = sizeof names / sizeof *names };
    const char *home = getenv("CUDA_HOME");
    char path[PATH_BYTES];
    void *found = NULL;
    for (int loaded = 1; loaded >= 0 && found == NULL; loaded--)
        for (int at = 0; at < NAMES_OF_IT && found == NULL; at++)
            found = dlopen(names[at], RTLD_NOW | RTLD_LOCAL | (loaded ? RTLD_NOLOAD : 0));
    if (found != NULL)
        return found;
    snprintf(path, sizeof path, "%s/extras/CUPTI/lib64/libcupti.so", home == NULL ? "/usr/local/cuda" : home);
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

/* Offset from CUPTI's clock to ours, by the tightest of some readings. */
static int64_t clock_offset_ns(void)
{
    int64_t tightest = INT64_MAX, offset = 0;
    for (int reading = 0; reading < READINGS; reading++) {
        uint64_t theirs = 0;
        int64_t before = now_ns();
        cupti.GetTimestamp(&theirs);
        int64_t after = now_ns();
        if (after - before < tightest) {
            tightest = after - before;
            offset = before + (after - before) / 2 - (int64_t)theirs;
        }
    }
    return offset;
}

static void take(const void *record, int64_t offset)
{
    struct gpu_work work = {0};
    char name[32];
    uint32_t kind = *(const uint32_t *)record;
    if (kind == RAN) {
        const struct kernel *kernel = record;
        work = (struct gpu_work){.name = kernel->name, .begin_ns = (int64_t)kernel->begin,
                                 .end_ns = (int64_t)kernel->end, .device = kernel->device, .queue = kernel->stream,
                                 .correlation = kernel->correlation, .grid = kernel->grid};
    } else if (kind == COPIED || kind == SET) {
        const struct copy *copy = record;
        const char *direction = kind == COPIED && copy->direction < DIRECTIONS ? directions[copy->direction] : "";
        snprintf(name, sizeof name, "%s%s%s", kind == SET ? "Memset" : "Memcpy", *direction ? " " : "", direction);
        work = (struct gpu_work){.name = name, .begin_ns = (int64_t)copy->begin, .end_ns = (int64_t)copy->end,
                                 .device = copy->device, .queue = copy->stream, .correlation = copy->correlation};
    }
    /* What has no times has not ended, or was not timed. */
    if (work.name == NULL || work.end_ns == 0)
        return;
    work.begin_ns += offset;
    work.end_ns += offset;
    gpu_worked(&cuda_tracer, &work);
}

static void give_buffer(uint8_t **buffer, size_t *bytes, size_t *most_records)
{
    bool has_room = atomic_fetch_add(&buffers, 1) < MOST_BUFFERS;
    *buffer = has_room ? aligned_alloc(8, BUFFER_BYTES) : NULL;
    *bytes = *buffer == NULL ? 0 : BUFFER_BYTES;
    *most_records = 0;
    if (*buffer == NULL)
        atomic_fetch_sub(&buffers, 1);
}

static void take_buffer(void *context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t used)
{
    (void)bytes;
    void *record = NULL;
    size_t dropped = 0;
    int64_t offset = clock_offset_ns();
    while (used > 0 && cupti.ActivityGetNextRecord(buffer, used, &record) == 0)
        take(record, offset);
    if (cupti.ActivityGetNumDroppedRecords(context, stream, &dropped) == 0 && dropped > 0)
        gpu_lost(dropped);
    free(buffer);
    atomic_fetch_sub(&buffers, 1);
}

static void note_call(void *unused, int domain, uint32_t function, const struct call *call)
{
    (void)unused;
    if (domain > RUNTIME || function >= FUNCTIONS_OF_DOMAIN || functions_of[domain][function] == 0)
        return;
    if (call->site == ENTERS) {
        if (call_depth++ == 0)
            gpu_called(functions_of[domain][function], call->correlation);
    } else if (call_depth > 0 && --call_depth == 0) {
        gpu_returned(functions_of[domain][function]);
    }
}

/* Whether a function gives a GPU something to do, or may wait for it. Others are called often, and are short. */
static bool is_worth_it(const char *function)
{
    static const char *const beginnings[] = {"Launch", "GraphLaunch", "Memcpy", "Memset", "Malloc", "Free",
                                             "StreamSynchronize", "EventSynchronize", "DeviceSynchronize",
                                             "CtxSynchronize"};
    const char *rest = function + (strncmp(function, "cuda", 4) == 0 ? 4 : 2);
    for (size_t at = 0; at < sizeof beginnings / sizeof *beginnings; at++)
        if (strncmp(rest, beginnings[at], strlen(beginnings[at])) == 0)
            return true;
    return false;
}

static void watch_functions(void *subscriber, int domain)
{
    for (uint32_t function = 1; function < FUNCTIONS_OF_DOMAIN; function++) {
        const char *known = NULL;
        if (cupti.GetCallbackName(domain, function, &known) != 0 || known == NULL || !is_worth_it(known))
            continue;
        char name[NAME_BYTES];
        snprintf(name, sizeof name, "%s", known);
        /* The version, and the default stream, of a function make no other one of it. */
        char *version = strstr(name, "_v"), *stream = strstr(name, "_pts");
        if (version != NULL)
            *version = '\0';
        if (stream != NULL)
            *stream = '\0';
        unsigned number = number_of_name(name);
        functions_of[domain][function] = number == 0 ? 0 : NAMED | (number - 1);
        cupti.EnableCallback(1, subscriber, domain, function);
    }
}

static const char *begin(void)
{
    static char refused[OBSTACLE_BYTES];
    void *library = open_cupti();
    uint32_t version = 0;
    if (library == NULL)
        return "no libcupti is found; load the CUDA toolkit, or pip install 'chimbuko[cuda]'";
    if (!find_functions(library) || cupti.GetVersion(&version) != 0)
        return "this libcupti is older than CUDA 11.6";
    if (version < FIRST_KNOWN || version > LAST_OF_13 || (version > LAST_BEFORE_13 && version < FIRST_OF_13)) {
        snprintf(refused, sizeof refused, "version %u of CUPTI is not known; a newer chimbuko may know it", version);
        return refused;
    }
    void *subscriber = NULL;
    int result = cupti.Subscribe(&subscriber, note_call, NULL);
    if (result != 0) {
        snprintf(refused, sizeof refused, "CUPTI is in use by another profiler of this program (%d)", result);
        return result == TAKEN_BY_ANOTHER ? refused : "CUPTI cannot be used; is profiling allowed on this machine?";
    }
    watch_functions(subscriber, RUNTIME);
    watch_functions(subscriber, DRIVER);
    cupti.ActivityRegisterCallbacks(give_buffer, take_buffer);
    int failed = cupti.ActivityEnable(RAN) | cupti.ActivityEnable(COPIED) | cupti.ActivityEnable(SET);
    cupti.ActivityFlushPeriod(PERIOD_MS);
    return failed ? "CUPTI cannot record kernels; is profiling allowed on this machine?" : NULL;
}

static void hand_over(void)
{
    if (cupti.ActivityFlushAll != NULL)
        cupti.ActivityFlushAll(0);
}

const struct gpu_tracer cuda_tracer = {.maker = "CUDA", .begin = begin, .hand_over = hand_over};
