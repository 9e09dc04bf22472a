/* A 2-D halo exchange of a given number of iterations, with as much work in each as makes some 20,000 recorded
 * calls a second of each rank; prints how long the iterations took, in s, and how many calls there were. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { COLUMNS = 256, ROWS = 384, REDUCE_EVERY = 10 };

static double first[(ROWS + 2) * COLUMNS], second[(ROWS + 2) * COLUMNS];
static double *field = first, *next = second;
static int rank, ranks;
static long calls;

void exchange(void)
{
    int up = rank > 0 ? rank - 1 : MPI_PROC_NULL, down = rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL;
    MPI_Request requests[4];
    MPI_Irecv(field, COLUMNS, MPI_DOUBLE, up, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(field + (ROWS + 1) * COLUMNS, COLUMNS, MPI_DOUBLE, down, 2, MPI_COMM_WORLD, &requests[1]);
    MPI_Isend(field + COLUMNS, COLUMNS, MPI_DOUBLE, up, 2, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(field + ROWS * COLUMNS, COLUMNS, MPI_DOUBLE, down, 1, MPI_COMM_WORLD, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    calls += 6;
}

void relax(int sweeps)
{
    for (int sweep = 0; sweep < sweeps; sweep++) {
        for (int cell = COLUMNS + 1; cell < (ROWS + 1) * COLUMNS - 1; cell++)
            next[cell] = 0.2 * (field[cell] + field[cell - 1] + field[cell + 1] + field[cell - COLUMNS] +
                                field[cell + COLUMNS]);
        double *done = next;
        next = field;
        field = done;
    }
    calls++;
}

void iterate(int sweeps)
{
    exchange();
    relax(sweeps);
    calls++;
}

int main(int count, char **words)
{
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    long iterations = count > 1 ? atol(words[1]) : 1000;
    int sweeps = count > 2 ? atoi(words[2]) : 4;
    double change = 1.0, total;
    MPI_Barrier(MPI_COMM_WORLD);
    double began = MPI_Wtime();
    for (long iteration = 0; iteration < iterations; iteration++) {
        iterate(sweeps);
        if (iteration % REDUCE_EVERY == 0)
            MPI_Allreduce(&change, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("%.6f %ld\n", MPI_Wtime() - began, calls);
    MPI_Finalize();
    return 0;
}
