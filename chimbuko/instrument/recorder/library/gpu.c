/* Rings of the queues of GPUs, whose work is reported some time after it has ended. */
#define _GNU_SOURCE
#include "gpu.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CORRELATION_ID "Correlation ID"

enum { QUEUES = 1024, KERNELS = 1 << 13, MOST_TEXT = 160, NAMES_WITH_SIZE = NAMES / 4 * 3 };

struct queue {
    struct ring *ring;
    uint64_t written;
    int64_t last_ns;
    uint32_t device, number;
};

static struct queue queues[QUEUES];
static unsigned queue_count;
static struct {
    uint64_t hash;
    Key key;
} kernels[KERNELS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int32_t correlation_name; /* one more than its number */
static bool has_begun;

static const struct gpu_tracer *const tracers[] = {&cuda_tracer};
enum { TRACERS = sizeof tracers / sizeof *tracers };

static struct queue *queue_of(const char *maker, uint32_t device, uint32_t number)
{
    for (unsigned at = 0; at < queue_count; at++)
        if (queues[at].device == device && queues[at].number == number)
            return &queues[at];
    if (queue_count == QUEUES)
        return NULL;
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%s %u %u", maker, device, number);
    struct ring *ring = make_queue_ring(name);
    if (ring == NULL)
        return NULL;
    queues[queue_count] = (struct queue){.ring = ring, .device = device, .number = number};
    return &queues[queue_count++];
}

static uint64_t hash_of(const struct gpu_work *work)
{
    uint64_t hash = UINT64_C(1469598103934665603);
    for (const char *at = work->name; *at != '\0'; at++)
        hash = (hash ^ (uint8_t)*at) * UINT64_C(1099511628211);
    for (unsigned at = 0; work->grid != NULL && at < 6; at++)
        hash = (hash ^ work->grid[at]) * UINT64_C(1099511628211);
    return hash | 1;
}

/* Write a kernel's name without its result and its parameters; what C++ has mangled is read where the program can. */
static void show_name(const char *name, char *shown)
{
    typedef char *demangle(const char *, char *, size_t *, int *);
    demangle *read = (demangle *)dlsym(RTLD_DEFAULT, "__cxa_demangle");
    char *made = strncmp(name, "_Z", 2) == 0 && read != NULL ? read(name, NULL, NULL, NULL) : NULL;
    const char *text = made != NULL ? made : name;
    if (strncmp(text, "void ", 5) == 0)
        text += 5;
    size_t length = strlen(text);
    if (made != NULL && length > 0 && text[length - 1] == ')') {
        int open = 0;
        do {
            length--;
            open += text[length] == ')' ? 1 : text[length] == '(' ? -1 : 0;
        } while (length > 0 && open > 0);
    }
    snprintf(shown, MOST_TEXT, "%.*s", (int)length, text);
    free(made);
}

/* A kernel of another size is another function: it takes another time. */
static Key key_of_work(const struct gpu_work *work)
{
    uint64_t hash = hash_of(work);
    unsigned at = hash % KERNELS;
    if (kernels[at].hash == hash)
        return kernels[at].key;
    char shown[MOST_TEXT], name[NAME_BYTES];
    show_name(work->name, shown);
    const uint32_t *size = atomic_load(&process->name_count) < NAMES_WITH_SIZE ? work->grid : NULL;
    if (size != NULL)
        snprintf(name, sizeof name, "%s <<<(%u,%u,%u), (%u,%u,%u)>>>", shown, size[0], size[1], size[2], size[3],
                 size[4], size[5]);
    else
        snprintf(name, sizeof name, "%s", shown);
    unsigned number = number_of_name(name);
    Key key = number == 0 ? 0 : NAMED | (number - 1);
    kernels[at].hash = hash;
    kernels[at].key = key;
    return key;
}

static void put(struct queue *queue, struct event event)
{
    struct event *events = (struct event *)(queue->ring + 1);
    events[queue->written & (RING_EVENTS - 1)] = event;
    atomic_store_explicit(&queue->ring->written, ++queue->written, memory_order_release);
}

void gpu_worked(const struct gpu_tracer *tracer, const struct gpu_work *work)
{
    pthread_mutex_lock(&lock);
    struct queue *queue = process == NULL ? NULL : queue_of(tracer->maker, work->device, work->queue);
    Key key = queue == NULL ? 0 : key_of_work(work);
    if (key != 0 && queue->written + 3 - atomic_load(&queue->ring->read) > RING_EVENTS)
        atomic_fetch_add(&queue->ring->dropped_calls, 1);
    else if (key != 0) {
        /* What runs at the same time in one queue, as parts of a graph do, is recorded one after the other. */
        int64_t begin = work->begin_ns > queue->last_ns ? work->begin_ns : queue->last_ns;
        int64_t end = work->end_ns > begin ? work->end_ns : begin;
        int32_t lane = queue->ring->thread;
        put(queue, (struct event){.time_ns = begin, .kind = ENTRY, .key = key, .tag = lane});
        put(queue, (struct event){.time_ns = begin, .kind = COUNTER, .value = work->correlation,
                                  .tag = correlation_name - 1});
        put(queue, (struct event){.time_ns = end, .kind = EXIT, .key = key, .tag = lane});
        queue->last_ns = end;
    }
    pthread_mutex_unlock(&lock);
}

void gpu_lost(size_t count)
{
    pthread_mutex_lock(&lock);
    if (queue_count > 0)
        atomic_fetch_add(&queues[0].ring->dropped_calls, count);
    pthread_mutex_unlock(&lock);
}

void gpu_called(Key function, uint32_t correlation)
{
    enter(function);
    record(COUNTER, (struct event){.value = correlation, .tag = correlation_name - 1});
}

void gpu_returned(Key function) { leave(function); }

static void begin_gpus(void)
{
    if (has_begun || is_only_counting || recorder_folder()[0] == '\0' || !acquire())
        return;
    release();
    has_begun = true;
    correlation_name = (int32_t)number_of_name(CORRELATION_ID);
    for (unsigned at = 0; at < TRACERS; at++) {
        const char *why = tracers[at]->begin();
        if (why != NULL)
            snprintf(process->gpu, OBSTACLE_BYTES, "%s: %s", tracers[at]->maker, why);
    }
}

/* Hand over what GPUs have done until now. */
EXPORTED void chimbuko_hand_over_gpus(void)
{
    for (unsigned at = 0; has_begun && at < TRACERS; at++)
        tracers[at]->hand_over();
}

/* CUDA calls this when it begins in a process, in the library that CUDA_INJECTION64_PATH names. */
EXPORTED int InitializeInjection(void)
{
    begin_gpus();
    if (has_begun)
        atexit(chimbuko_hand_over_gpus);
    return 1;
}

void forget_gpus(void)
{
    has_begun = false;
    queue_count = 0;
    memset(kernels, 0, sizeof kernels);
}
