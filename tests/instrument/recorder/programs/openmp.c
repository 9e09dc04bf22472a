/* Does what an OpenMP runtime does with a tool, and prints the names that its threads have then. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

typedef void (*function)(void);
enum { THREAD_BEGIN = 1, INITIAL = 1, WORKER = 2 };
struct tool {
    int (*initialize)(function (*find)(const char *), int, void *);
    void (*finalize)(void *);
    unsigned long of_tool;
};
static void (*thread_begin)(int, void *);

static int set_callback(int event, function callback)
{
    if (event == THREAD_BEGIN)
        thread_begin = (void (*)(int, void *))callback;
    return 5;
}

static function find(const char *name)
{
    return strcmp(name, "ompt_set_callback") == 0 ? (function)set_callback : NULL;
}

static void *begin(void *type)
{
    char name[16];
    if (thread_begin != NULL)
        thread_begin(*(int *)type, NULL);
    pthread_getname_np(pthread_self(), name, sizeof name);
    puts(name);
    return NULL;
}

int main(void)
{
    struct tool *(*start)(unsigned, const char *);
    start = (struct tool * (*)(unsigned, const char *)) dlsym(RTLD_DEFAULT, "ompt_start_tool");
    struct tool *tool = start == NULL ? NULL : start(201811, "made up");
    if (tool != NULL && tool->initialize(find, 0, &tool->of_tool) == 0)
        return 1;
    int types[] = {INITIAL, WORKER};
    begin(&types[0]);
    pthread_t worker;
    pthread_create(&worker, NULL, begin, &types[1]);
    pthread_join(worker, NULL);
    if (tool != NULL)
        tool->finalize(&tool->of_tool);
    return 0;
}
