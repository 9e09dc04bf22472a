/* What is not simply a program: given as the first argument. */
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int tools_barriers;

#ifdef WITH_TOOL
/* A tool linked into the program: it stands before everything else. */
int MPI_Barrier(MPI_Comm comm)
{
    tools_barriers++;
    return PMPI_Barrier(comm);
}
#endif

enum { THREADS = 9, ROUNDS = 200 };
static pthread_barrier_t all_there;

/* Each thread of a rank exchanges messages with the same one of its neighbours, on a communicator of its own. */
static void *exchange(void *given)
{
    int rank, ranks, mine = 0, theirs = 0;
    MPI_Comm comm = *(MPI_Comm *)given;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Request requests[2];
        MPI_Irecv(&theirs, 1, MPI_INT, (rank + ranks - 1) % ranks, round, comm, &requests[0]);
        MPI_Isend(&mine, 1, MPI_INT, (rank + 1) % ranks, round, comm, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    /* A thread that begins later would take over the ring of one that has ended. */
    pthread_barrier_wait(&all_there);
    return NULL;
}

static int with_threads(void)
{
    int level;
    pthread_t threads[THREADS];
    MPI_Comm comms[THREADS];
    MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
    if (level != MPI_THREAD_MULTIPLE)
        return 7;
    pthread_barrier_init(&all_there, NULL, THREADS);
    for (int number = 0; number < THREADS; number++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[number]);
    for (int number = 0; number < THREADS; number++)
        pthread_create(&threads[number], NULL, exchange, &comms[number]);
    for (int number = 0; number < THREADS; number++)
        pthread_join(threads[number], NULL);
    for (int number = 0; number < THREADS; number++)
        MPI_Comm_free(&comms[number]);
    return MPI_Finalize();
}

/* MPI's interface for tools, before and after MPI itself. */
static int with_tools_interface(int *count, char ***words)
{
    int level, variables = 0, rank;
    MPI_T_init_thread(MPI_THREAD_SINGLE, &level);
    MPI_T_cvar_get_num(&variables);
    MPI_Init(count, words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    MPI_T_finalize();
    return variables > 0 ? 0 : 6;
}

#if MPI_VERSION >= 4
/* Without MPI_Init. The odd and the even ranks have a communicator each. */
static int with_sessions(void)
{
    MPI_Session session;
    MPI_Group world, half;
    MPI_Comm comm;
    int rank, ranks, mine = 0, theirs = 0;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &world);
    MPI_Group_rank(world, &rank);
    MPI_Group_size(world, &ranks);
    int range[1][3] = {{rank % 2, ranks - 2 + rank % 2, 2}};
    MPI_Group_range_incl(world, 1, range, &half);
    MPI_Comm_create_from_group(half, "half", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    MPI_Sendrecv(&mine, 1, MPI_INT, (rank + 1) % ranks, 5, &theirs, 1, MPI_INT, (rank + ranks - 1) % ranks, 5, comm,
                 MPI_STATUS_IGNORE);
    MPI_Barrier(comm);
    MPI_Comm_free(&comm);
    MPI_Group_free(&half);
    MPI_Group_free(&world);
    return MPI_Session_finalize(&session);
}
#endif

int main(int count, char **words)
{
    const char *what = count > 1 ? words[1] : "";
    if (strcmp(what, "exec") == 0) {
        execl(words[0], words[0], "plain", (char *)NULL);
        return 9;
    }
    if (strcmp(what, "threads") == 0)
        return with_threads();
    if (strcmp(what, "tools interface") == 0)
        return with_tools_interface(&count, &words);
#if MPI_VERSION >= 4
    if (strcmp(what, "sessions") == 0)
        return with_sessions();
#endif
    MPI_Init(&count, &words);
    if (strcmp(what, "dlopen") == 0) {
        void *library = dlopen(words[2], RTLD_NOW);
        int (*function)(int) = library == NULL ? NULL : (int (*)(int))dlsym(library, "plugin");
        if (function == NULL || function(3) != 4)
            return 8;
    }
    if (strcmp(what, "spawn") == 0) {
        MPI_Comm children;
        char *arguments[] = {"-m", "chimbuko", "trace", words[0], "child", NULL};
        MPI_Comm_spawn(words[2], arguments, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
        MPI_Barrier(children);
        MPI_Comm_disconnect(&children);
    } else if (strcmp(what, "child") == 0) {
        MPI_Comm parent;
        MPI_Comm_get_parent(&parent);
        MPI_Barrier(parent);
        MPI_Comm_disconnect(&parent);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (strcmp(what, "unfinished") == 0)
        _exit(0);
    MPI_Finalize();
    if (strcmp(what, "tool") == 0)
        printf("barriers %d\n", tools_barriers);
    return 0;
}
