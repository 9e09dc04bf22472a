/* What a region of OpenMP and a loop in one cost the thread that executes them: medians of bursts, in ns of its CPU
 * time, as one line of numbers. A team of one thread waits for nobody. A burst is smaller than half of a ring, and
 * bursts are so far apart that nothing is left out. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { BURST = 2000, BURSTS = 15, PAUSE_MS = 500 };

static volatile long sum;

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1e9 + now.tv_nsec;
}

__attribute__((noinline)) static double regions(void)
{
    double began = now_ns();
    for (int number = 0; number < BURST; number++) {
#pragma omp parallel num_threads(1)
        sum++;
    }
    return now_ns() - began;
}

__attribute__((noinline)) static double loops(void)
{
    double took = 0;
#pragma omp parallel num_threads(1)
    {
        double began = now_ns();
        for (int number = 0; number < BURST; number++) {
#pragma omp for schedule(dynamic) nowait
            for (int part = 0; part < 1; part++)
                sum++;
        }
        took = now_ns() - began;
    }
    return took;
}

static int by_size(const void *one, const void *other)
{
    double difference = *(const double *)one - *(const double *)other;
    return difference < 0 ? -1 : difference > 0;
}

static double measured(double (*burst)(void))
{
    double found[BURSTS];
    struct timespec pause = {0, PAUSE_MS * 1000000L};
    for (int number = 0; number < BURSTS; number++) {
        found[number] = burst() / BURST;
        nanosleep(&pause, NULL);
    }
    qsort(found, BURSTS, sizeof *found, by_size);
    return found[BURSTS / 2];
}

int main(void)
{
    double region = measured(regions);
    printf("%.1f %.1f\n", region, measured(loops));
    return 0;
}
