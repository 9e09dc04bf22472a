/* Messages of all kinds, on 4 ranks: what each test expects of them stands in test_messages.py. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int rank;
static double data[1024], more[1024];

/* Ranks 0 and 1 only. */
static void blocking(void)
{
    MPI_Status status;
    if (rank == 0) {
        MPI_Send(data, 10, MPI_DOUBLE, 1, 100, MPI_COMM_WORLD);
        MPI_Ssend(data, 11, MPI_INT, 1, 101, MPI_COMM_WORLD);
        MPI_Send(data, 1, MPI_DOUBLE, MPI_PROC_NULL, 102, MPI_COMM_WORLD);
    } else if (rank == 1) {
        MPI_Recv(data, 1024, MPI_DOUBLE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        MPI_Recv(data, 1024, MPI_INT, MPI_ANY_SOURCE, 101, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(data, 1, MPI_DOUBLE, MPI_PROC_NULL, 102, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

static void exchanged(void)
{
    int partner = rank ^ 1;
    MPI_Sendrecv(data, 4, MPI_DOUBLE, partner, 200, more, 4, MPI_DOUBLE, partner, 200, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Sendrecv_replace(data, 5, MPI_DOUBLE, partner, 201, partner, 201, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Everybody sends to the next; completed in all the ways that there are. */
static void nonblocking(void)
{
    enum { MANY = 40 }; /* more than are held without an allocation */
    int next = (rank + 1) % 4, before = (rank + 3) % 4, flag, index, count, indices[MANY];
    MPI_Request requests[2 * MANY];
    for (int way = 0; way < 6; way++) {
        int tag = 300 + way;
        MPI_Irecv(more, 7, MPI_DOUBLE, way % 2 ? MPI_ANY_SOURCE : before, tag, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(data, 7, MPI_DOUBLE, next, tag, MPI_COMM_WORLD, &requests[1]);
        if (way == 0) {
            MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
            MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
        } else if (way == 1) {
            for (int request = 0; request < 2; request++)
                for (flag = 0; !flag;)
                    MPI_Test(&requests[request], &flag, MPI_STATUS_IGNORE);
        } else if (way == 2) {
            for (int done = 0; done < 2; done++)
                MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
        } else if (way == 3) {
            for (int done = 0; done < 2; done += count)
                MPI_Waitsome(2, requests, &count, indices, MPI_STATUSES_IGNORE);
        } else if (way == 4) {
            for (flag = 0; !flag;)
                MPI_Testall(2, requests, &flag, MPI_STATUSES_IGNORE);
        } else {
            for (int done = 0; done < 2;) {
                MPI_Testany(2, requests, &index, &flag, MPI_STATUS_IGNORE);
                done += flag && index != MPI_UNDEFINED;
            }
        }
    }
    for (int number = 0; number < MANY; number++)
        MPI_Irecv(more + number, 1, MPI_DOUBLE, before, 400 + number, MPI_COMM_WORLD, &requests[number]);
    for (int number = 0; number < MANY; number++)
        MPI_Isend(data, 1, MPI_DOUBLE, next, 400 + number, MPI_COMM_WORLD, &requests[MANY + number]);
    MPI_Waitall(2 * MANY, requests, MPI_STATUSES_IGNORE);
    /* A receive that is cancelled is none. */
    MPI_Irecv(more, 1, MPI_DOUBLE, before, 999, MPI_COMM_WORLD, &requests[0]);
    MPI_Cancel(&requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
}

static void persistent(void)
{
    int next = (rank + 1) % 4, before = (rank + 3) % 4;
    MPI_Request requests[2];
    MPI_Recv_init(more, 3, MPI_DOUBLE, before, 500, MPI_COMM_WORLD, &requests[0]);
    MPI_Send_init(data, 3, MPI_DOUBLE, next, 500, MPI_COMM_WORLD, &requests[1]);
    for (int round = 0; round < 3; round++) {
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

static void probed(void)
{
    if (rank == 2) {
        MPI_Send(data, 6, MPI_DOUBLE, 3, 600, MPI_COMM_WORLD);
        MPI_Send(data, 7, MPI_DOUBLE, 3, 601, MPI_COMM_WORLD);
    } else if (rank == 3) {
        MPI_Message message;
        MPI_Request request;
        MPI_Mprobe(MPI_ANY_SOURCE, 600, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
        MPI_Mrecv(more, 6, MPI_DOUBLE, &message, MPI_STATUS_IGNORE);
        MPI_Mprobe(MPI_ANY_SOURCE, 601, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
        MPI_Imrecv(more, 7, MPI_DOUBLE, &message, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

/* Odd and even ranks, the highest first: partners are 3 and 1, 2 and 0. */
static void communicators(void)
{
    MPI_Comm half, copy, pair;
    MPI_Group all, two;
    int its_rank, ranks[2] = {3, 0};
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    MPI_Comm_dup(half, &copy);
    MPI_Comm_rank(half, &its_rank);
    MPI_Sendrecv(data, 2, MPI_DOUBLE, 1 - its_rank, 700, more, 2, MPI_DOUBLE, 1 - its_rank, 700, half,
                 MPI_STATUS_IGNORE);
    MPI_Sendrecv(data, 2, MPI_DOUBLE, 1 - its_rank, 701, more, 2, MPI_DOUBLE, 1 - its_rank, 701, copy,
                 MPI_STATUS_IGNORE);
    MPI_Bcast(data, 9, MPI_DOUBLE, 1, copy);
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, 2, ranks, &two);
    MPI_Comm_create(MPI_COMM_WORLD, two, &pair);
    if (pair != MPI_COMM_NULL) {
        MPI_Comm_rank(pair, &its_rank);
        MPI_Sendrecv(data, 1, MPI_DOUBLE, 1 - its_rank, 702, more, 1, MPI_DOUBLE, 1 - its_rank, 702, pair,
                     MPI_STATUS_IGNORE);
        MPI_Comm_free(&pair);
    }
    /* Between the two halves: 0 and 2 to 1 and 3. */
    MPI_Comm between;
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank % 2 ? 2 : 3, 77, &between);
    MPI_Comm_rank(half, &its_rank);
    MPI_Sendrecv(data, 3, MPI_DOUBLE, its_rank, 703, more, 3, MPI_DOUBLE, its_rank, 703, between,
                 MPI_STATUS_IGNORE);
    MPI_Comm_free(&between);
    MPI_Group_free(&all);
    MPI_Group_free(&two);
    MPI_Comm_free(&copy);
    MPI_Comm_free(&half);
}

static void collectives(void)
{
    MPI_Request request;
    double all[64] = {0};
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Bcast(data, 12, MPI_DOUBLE, 2, MPI_COMM_WORLD);
    /* At the root count and type of what it sends may be anything. */
    if (rank == 1)
        MPI_Gather(MPI_IN_PLACE, -1, MPI_DATATYPE_NULL, all, 2, MPI_DOUBLE, 1, MPI_COMM_WORLD);
    else
        MPI_Gather(data, 2, MPI_DOUBLE, NULL, -1, MPI_DATATYPE_NULL, 1, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, all, 3, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Iallreduce(MPI_IN_PLACE, all, 4, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void one_sided(void)
{
    MPI_Win window;
    double value = rank;
    MPI_Win_create(more, sizeof more, sizeof *more, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_fence(0, window);
    MPI_Put(&value, 1, MPI_DOUBLE, (rank + 1) % 4, 5, 1, MPI_DOUBLE, window);
    MPI_Win_fence(0, window);
    MPI_Win_lock(MPI_LOCK_SHARED, (rank + 2) % 4, 0, window);
    MPI_Get(&value, 1, MPI_DOUBLE, (rank + 2) % 4, 5, 1, MPI_DOUBLE, window);
    MPI_Win_unlock((rank + 2) % 4, window);
    MPI_Win_free(&window);
}

int main(int count, char **words)
{
    int provided, ranks;
    MPI_Init_thread(&count, &words, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks != 4)
        return 2;
    blocking();
    exchanged();
    nonblocking();
    persistent();
    probed();
    communicators();
    collectives();
    one_sided();
    MPI_Finalize();
    return 0;
}
