/* What runs on GPUs. The tracing library of each maker has one file, whose functions stand in the table of gpu.c; it
 * reports what it hears by the functions below. Nothing here waits for a GPU. */
#ifndef CHIMBUKO_GPU_H
#define CHIMBUKO_GPU_H

#include "recorder.h"

/* A maker's tracing library. */
struct gpu_tracer {
    const char *maker; /* as in the metadata of the threads that stand for its queues */
    /* Begin, where the maker's runtime is being loaded; return why that is not possible, in words, or NULL. */
    const char *(*begin)(void);
    /* Report all that has been completed; what still runs is not waited for. */
    void (*hand_over)(void);
};

extern const struct gpu_tracer cuda_tracer __attribute__((visibility("hidden")));

/* A kernel, copy or the like that has ended on a GPU. */
struct gpu_work {
    const char *name;
    int64_t begin_ns, end_ns; /* of our clock */
    uint32_t device, queue;
    uint32_t correlation;     /* that of the call that launched it */
    const uint32_t *grid;     /* six numbers: grid and block of a kernel; NULL for none */
};

__attribute__((visibility("hidden"))) void gpu_worked(const struct gpu_tracer *tracer, const struct gpu_work *work);

/* Count work that the maker's library had no room for. */
__attribute__((visibility("hidden"))) void gpu_lost(size_t count);

/* A thread calls a function of the maker's runtime, of this key; and its number, by which work is matched with it. */
__attribute__((visibility("hidden"))) void gpu_called(Key function, uint32_t correlation);
__attribute__((visibility("hidden"))) void gpu_returned(Key function);

/* In a forked child, which cannot use its parent's GPUs. */
__attribute__((visibility("hidden"))) void forget_gpus(void);

#endif
