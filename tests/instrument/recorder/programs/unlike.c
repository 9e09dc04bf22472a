/* Two functions, of which even ranks call one a thousand times as often as the other, and odd ranks the reverse.
 * Argument: seconds. */
#include <mpi.h>
#include <stdlib.h>

static volatile long sum;

__attribute__((noinline)) void here(void) { sum++; }
__attribute__((noinline)) void there(void) { sum += 2; }

__attribute__((noinline)) void step(void (*often)(void), void (*seldom)(void))
{
    for (int number = 0; number < 100000; number++) {
        often();
        if (number % 1000 == 0)
            seldom();
    }
}

int main(int count, char **words)
{
    int rank;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    double end_s = MPI_Wtime() + (count > 1 ? atof(words[1]) : 4);
    while (MPI_Wtime() < end_s)
        step(rank % 2 == 0 ? here : there, rank % 2 == 0 ? there : here);
    MPI_Finalize();
    return 0;
}
