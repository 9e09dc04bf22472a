/* What one event costs: the median of many bursts, in ns per call of each kind, as one line of numbers. A burst is
 * smaller than a ring, and bursts are so far apart that no function is left out. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define UNTRACED __attribute__((no_instrument_function))
enum { BURST = 2000, BURSTS = 21, PAUSE_MS = 150 };

static volatile long sum;

__attribute__((noinline)) void function(void) { sum++; }

static UNTRACED double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e9 + now.tv_nsec;
}

static UNTRACED void functions(void)
{
    for (int number = 0; number < BURST; number++)
        function();
}

static UNTRACED void calls(void)
{
    int size;
    for (int number = 0; number < BURST; number++)
        MPI_Comm_size(MPI_COMM_WORLD, &size);
}

/* Three calls, one message sent and one received, four rows beside the calls. */
static UNTRACED void messages(void)
{
    double out = 1.0, in;
    MPI_Request requests[2];
    for (int number = 0; number < BURST; number++) {
        MPI_Irecv(&in, 1, MPI_DOUBLE, 0, 1, MPI_COMM_SELF, &requests[0]);
        MPI_Isend(&out, 1, MPI_DOUBLE, 0, 1, MPI_COMM_SELF, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
}

static UNTRACED int by_size(const void *one, const void *other)
{
    double difference = *(const double *)one - *(const double *)other;
    return difference < 0 ? -1 : difference > 0;
}

static UNTRACED void measure(void (*burst)(void), int calls_each)
{
    double found[BURSTS];
    struct timespec pause = {0, PAUSE_MS * 1000000L};
    for (int number = 0; number < BURSTS; number++) {
        double began = now_ns();
        burst();
        found[number] = (now_ns() - began) / BURST / calls_each;
        nanosleep(&pause, NULL);
    }
    qsort(found, BURSTS, sizeof *found, by_size);
    /* The median, and what other work on the machine disturbs least. */
    printf("%.1f %.1f ", found[BURSTS / 2], found[BURSTS / 20]);
}

UNTRACED int main(int count, char **words)
{
    MPI_Init(&count, &words);
    measure(functions, 1);
    measure(calls, 1);
    measure(messages, 3);
    printf("\n");
    MPI_Finalize();
    return 0;
}
