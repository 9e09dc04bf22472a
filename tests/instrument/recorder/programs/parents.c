/* A child that ends before its parent goes on, or that begins when its parent has ended. */
#include <chimbuko.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef WITH_MPI
#include <mpi.h>
#endif

static void work(void)
{
    CHIMBUKO_REGION("work");
}

static void await_end_of(pid_t parent)
{
    while (getppid() == parent)
        usleep(1000);
}

int main(int count, char **words)
{
    int is_left_alone = count > 1 && strcmp(words[1], "left alone") == 0;
    pid_t parent = getpid();
    work();
    pid_t child = fork();
    if (child == 0) {
        if (is_left_alone)
            await_end_of(parent);
        work();
        exit(0);
    }
    if (is_left_alone)
        return 0;
    waitpid(child, NULL, 0);
    puts("the child has ended");
    fflush(stdout);
    getchar();
#ifdef WITH_MPI
    MPI_Init(NULL, NULL);
    MPI_Finalize();
#endif
    return 0;
}
