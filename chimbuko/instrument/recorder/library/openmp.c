/* Names for the threads of OpenMP, by which the node monitor knows what they are for. The runtimes of LLVM and Intel
   report the begin of each thread (the tools interface of OpenMP 5); GCC's does not. */
#define _GNU_SOURCE
#include "recorder.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>

/* The parts of the standard's interface that are needed here. */
enum { THREAD_BEGIN = 1, WORKER = 2 };
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
    if (type == WORKER)
        prctl(PR_SET_NAME, "openmp_worker", 0, 0, 0);
}

static int initialize(lookup find, int device, union data *of_tool)
{
    (void)device, (void)of_tool;
    set_callback set = (set_callback)find("ompt_set_callback");
    if (set != NULL)
        set(THREAD_BEGIN, (function)name_thread);
    return set != NULL;
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
