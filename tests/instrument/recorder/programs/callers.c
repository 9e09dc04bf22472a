/* Functions around calls of MPI, compiled without hooks: loops within them, and around them. Arguments: steps, descents. */
#include <chimbuko.h>
#include <mpi.h>
#include <setjmp.h>
#include <stdlib.h>

#define FUNCTION __attribute__((noinline, noclone))

static int rank, size;
static double sent[64], received[64];
static jmp_buf back;

FUNCTION void exchange(void)
{
    MPI_Request requests[2];
    MPI_Irecv(received, 64, MPI_DOUBLE, (rank + 1) % size, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(sent, 64, MPI_DOUBLE, (rank + size - 1) % size, 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    sent[0] += 1;
}

FUNCTION double sum(double value)
{
    double result;
    MPI_Allreduce(&value, &result, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return result + 1;
}

/* A loop of calls that pass further arguments on the stack. */
FUNCTION void shift(void)
{
    for (int number = 0; number < 3; number++) {
        MPI_Sendrecv_replace(sent, 64, MPI_DOUBLE, (rank + 1) % size, 2, (rank + size - 1) % size, 2, MPI_COMM_WORLD,
                             MPI_STATUS_IGNORE);
        sent[number] += 1;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    sent[0] = 0;
}

FUNCTION int compare(const void *one, const void *other)
{
    double result = sum(*(const double *)one);
    return (*(const double *)one > *(const double *)other) + 0 * (int)result;
}

FUNCTION double descend(int depth)
{
    double result = depth == 0 ? sum(1) : descend(depth - 1);
    return result + 1;
}

FUNCTION void leave(void)
{
    sum(2);
    longjmp(back, 1);
}

FUNCTION double iterate(int steps)
{
    double result = 0;
    for (int step = 0; step < steps; step++) {
        exchange();
        if (step % 5 == 4)
            result += sum(result);
        if (step % 10 == 9)
            shift();
    }
    return result;
}

FUNCTION void in_region(void)
{
    CHIMBUKO_REGION("solve");
    exchange();
}

int main(int count, char **words)
{
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int steps = count > 1 ? atoi(words[1]) : 20;
    double result = iterate(steps), two[] = {1, 2};
    result += iterate(steps);
    qsort(two, 2, sizeof *two, compare);
    result += descend(3);
    for (int number = 0; count > 2 && number < atoi(words[2]); number++)
        result += descend(29);
    if (setjmp(back) == 0)
        leave();
    in_region();
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return result < 0;
}
