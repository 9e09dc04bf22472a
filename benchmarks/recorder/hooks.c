/* What a hook costs whose function is left out: ns, the median of many bursts. The hooks are called by their address,
 * so that no call site can be disarmed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { BURST = 5000000, BURSTS = 21 };

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e9 + now.tv_nsec;
}

static int by_size(const void *one, const void *other)
{
    double difference = *(const double *)one - *(const double *)other;
    return difference < 0 ? -1 : difference > 0;
}

int main(void)
{
    void (*enter)(void *, void *) = (void (*)(void *, void *))dlsym(RTLD_DEFAULT, "__cyg_profile_func_enter");
    void (*leave)(void *, void *) = (void (*)(void *, void *))dlsym(RTLD_DEFAULT, "__cyg_profile_func_exit");
    double found[BURSTS];
    for (int number = 0; number < BURSTS; number++) {
        double began = now_ns();
        for (int call = 0; call < BURST; call++) {
            enter((void *)now_ns, (void *)main);
            leave((void *)now_ns, (void *)main);
        }
        found[number] = (now_ns() - began) / BURST / 2;
    }
    qsort(found, BURSTS, sizeof *found, by_size);
    printf("%.2f\n", found[BURSTS / 2]);
    return 0;
}
