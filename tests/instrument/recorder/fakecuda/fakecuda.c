/* A CUDA that is none: no GPU, and no library of NVIDIA. It is built as libcuda and libcupti in one, with NVIDIA's own
 * headers, so that numbers, structures and sizes are theirs. Work on its two streams takes the time that is asked for,
 * by the clock alone, and is reported as CUPTI does: in buffers, by another thread, some time after it has ended. */
#define _GNU_SOURCE
#include <cupti.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fakecuda.h"

#define API __attribute__((visibility("default")))
#define AHEAD_NS UINT64_C(5000000000) /* of our clock, as CUPTI's is another one */
enum { STREAMS = 2, MOST_RECORDS = 4096 };

static CUpti_CallbackFunc subscribed;
static CUpti_BuffersCallbackRequestFunc request;
static CUpti_BuffersCallbackCompleteFunc complete;
static bool enabled_functions[2][1024];
static bool enabled[CUPTI_ACTIVITY_KIND_COUNT];
static uint64_t free_at[STREAMS];
static uint32_t correlation;
static struct {
    union {
        KERNEL kernel;
        MEMCPY copy;
        MEMSET set;
        CUpti_Activity any;
    };
    size_t bytes;
    uint64_t end;
} records[MOST_RECORDS];
static unsigned first, count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec + AHEAD_NS;
}

static void pause_until(uint64_t time)
{
    while (now() < time)
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

/* Report what has ended, in the order in which it was given, as far as a buffer goes. */
static void report(void)
{
    pthread_mutex_lock(&lock);
    while (complete != NULL && first < count && records[first].end <= now()) {
        uint8_t *buffer;
        size_t bytes, most, used = 0;
        request(&buffer, &bytes, &most);
        if (buffer == NULL)
            break;
        for (; first < count && records[first].end <= now() && used + records[first].bytes <= bytes; first++) {
            memcpy(buffer + used, &records[first].any, records[first].bytes);
            used += records[first].bytes;
        }
        complete(NULL, 0, buffer, bytes, used);
    }
    pthread_mutex_unlock(&lock);
}

static void *report_always(void *unused)
{
    for (;;) {
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        report();
    }
    return unused;
}

static void tell(CUpti_ApiCallbackSite site, CUpti_CallbackId function, const char *name)
{
    CUpti_CallbackData data = {.callbackSite = site, .functionName = name, .correlationId = correlation};
    if (subscribed != NULL && enabled_functions[CUPTI_CB_DOMAIN_RUNTIME_API - 1][function])
        subscribed(NULL, CUPTI_CB_DOMAIN_RUNTIME_API, function, &data);
}

#define CALL(function, body)                                                                                           \
    correlation++;                                                                                                     \
    tell(CUPTI_API_ENTER, CUPTI_RUNTIME_TRACE_CBID_##function, #function);                                             \
    body;                                                                                                              \
    tell(CUPTI_API_EXIT, CUPTI_RUNTIME_TRACE_CBID_##function, #function)

static uint64_t use(unsigned stream, uint64_t ns)
{
    uint64_t begin = free_at[stream] > now() ? free_at[stream] : now();
    free_at[stream] = begin + ns;
    return begin;
}

#define PUT(field, kind_of_it, ...)                                                                                    \
    pthread_mutex_lock(&lock);                                                                                         \
    if (enabled[kind_of_it] && count < MOST_RECORDS) {                                                                 \
        uint64_t begin = use(stream, ns);                                                                              \
        records[count].field = (__typeof__(records[count].field)){.kind = kind_of_it, .start = begin,                  \
                                                                  .end = begin + ns, .streamId = 7 + stream,           \
                                                                  .correlationId = correlation, __VA_ARGS__};          \
        records[count].bytes = sizeof records[count].field;                                                            \
        records[count++].end = begin + ns;                                                                             \
    }                                                                                                                  \
    pthread_mutex_unlock(&lock)

API void fake_launch(unsigned stream, const char *kernel, int blocks, uint64_t ns)
{
    CALL(cudaLaunchKernel_v7000, PUT(kernel, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, .name = kernel, .gridX = blocks,
                                     .gridY = 1, .gridZ = 1, .blockX = 256, .blockY = 1, .blockZ = 1));
}

API void fake_copy(unsigned stream, uint64_t ns)
{
    CALL(cudaMemcpyAsync_v3020, PUT(copy, CUPTI_ACTIVITY_KIND_MEMCPY, .copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_HTOD));
}

API void fake_set(unsigned stream, uint64_t ns)
{
    CALL(cudaMemsetAsync_v3020, PUT(set, CUPTI_ACTIVITY_KIND_MEMSET, .value = 0));
}

API void fake_synchronize(unsigned stream)
{
    CALL(cudaStreamSynchronize_v3020, pause_until(free_at[stream]));
}

/* As libcuda does. */
API void fake_begin(void)
{
    const char *path = getenv("CUDA_INJECTION64_PATH");
    void *library = path == NULL ? NULL : dlopen(path, RTLD_NOW);
    int (*initialize)(void) = library == NULL ? NULL : (int (*)(void))dlsym(library, "InitializeInjection");
    pthread_t reporter;
    if (initialize != NULL)
        initialize();
    pthread_create(&reporter, NULL, report_always, NULL);
}

API CUptiResult cuptiGetVersion(uint32_t *version)
{
    const char *another = getenv("FAKE_CUPTI_VERSION");
    *version = another == NULL ? CUPTI_API_VERSION : (uint32_t)atoi(another);
    return CUPTI_SUCCESS;
}

API CUptiResult cuptiSubscribe(CUpti_SubscriberHandle *subscriber, CUpti_CallbackFunc callback, void *data)
{
    (void)data;
    if (getenv("FAKE_CUPTI_TAKEN") != NULL)
        return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
    subscribed = callback;
    *subscriber = (CUpti_SubscriberHandle)&subscribed;
    return CUPTI_SUCCESS;
}

API CUptiResult cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle subscriber, CUpti_CallbackDomain domain,
                                    CUpti_CallbackId function)
{
    (void)subscriber;
    enabled_functions[domain - 1][function] = enable;
    return CUPTI_SUCCESS;
}

API CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t function, const char **name)
{
    static const struct {
        uint32_t number;
        const char *name;
    } known[] = {
#define KNOWN(function) {CUPTI_RUNTIME_TRACE_CBID_##function, #function}
        KNOWN(cudaLaunchKernel_v7000), KNOWN(cudaMemcpyAsync_v3020), KNOWN(cudaMemsetAsync_v3020),
        KNOWN(cudaStreamSynchronize_v3020), KNOWN(cudaGetDevice_v3020),
    };
    for (unsigned at = 0; domain == CUPTI_CB_DOMAIN_RUNTIME_API && at < sizeof known / sizeof *known; at++)
        if (known[at].number == function) {
            *name = known[at].name;
            return CUPTI_SUCCESS;
        }
    return CUPTI_ERROR_INVALID_PARAMETER;
}

API CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc requested,
                                               CUpti_BuffersCallbackCompleteFunc completed)
{
    request = requested;
    complete = completed;
    return CUPTI_SUCCESS;
}

API CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind)
{
    enabled[kind] = true;
    return CUPTI_SUCCESS;
}

API CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t bytes, CUpti_Activity **record)
{
    size_t of_kind[CUPTI_ACTIVITY_KIND_COUNT] = {[CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL] = sizeof(KERNEL),
                                                 [CUPTI_ACTIVITY_KIND_MEMCPY] = sizeof(MEMCPY),
                                                 [CUPTI_ACTIVITY_KIND_MEMSET] = sizeof(MEMSET)};
    uint8_t *next = *record == NULL ? buffer : (uint8_t *)*record + of_kind[(*record)->kind];
    if (next >= buffer + bytes)
        return CUPTI_ERROR_MAX_LIMIT_REACHED;
    *record = (CUpti_Activity *)next;
    return CUPTI_SUCCESS;
}

API CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream, size_t *dropped)
{
    (void)context, (void)stream;
    *dropped = 0;
    return CUPTI_SUCCESS;
}

API CUptiResult cuptiActivityFlushAll(uint32_t flag)
{
    (void)flag;
    report();
    return CUPTI_SUCCESS;
}

API CUptiResult cuptiActivityFlushPeriod(uint32_t time)
{
    (void)time;
    return CUPTI_SUCCESS;
}

API CUptiResult cuptiGetTimestamp(uint64_t *time)
{
    *time = now();
    return CUPTI_SUCCESS;
}
