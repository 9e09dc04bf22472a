/* The communicators and windows of a process, by rows of its table. */
#ifndef CHIMBUKO_COMMUNICATORS_H
#define CHIMBUKO_COMMUNICATORS_H

#include "messages.h"

/* mpi_NAME() is MPI's own function, by the name that no tool replaces. */
#define MPI_FUNCTION(name)                                                                                   \
    static __typeof__(&MPI_##name) mpi_##name(void)                                                          \
    {                                                                                                        \
        static void *volatile found;                                                                         \
        if (UNLIKELY(found == NULL))                                                                         \
            found = find_mpi("PMPI_" #name);                                                                 \
        return (__typeof__(&MPI_##name))found;                                                               \
    }

/* A hash of two numbers. */
static inline uint64_t mixed(uint64_t value, uint64_t with)
{
    value = (value ^ with) * UINT64_C(0x9e3779b97f4a7c15);
    value = (value ^ (value >> 29)) * UINT64_C(0xbf58476d1ce4e5b9);
    return value ^ (value >> 32);
}

/* Row of a communicator or window; 0 where it is not known. */
HIDDEN uint16_t row_of(MPI_Comm comm);
HIDDEN uint16_t row_of_window(MPI_Win win);
HIDDEN int32_t world_rank_of(uint16_t row, int peer);

/* Number of collective operations on a communicator before this one. */
HIDDEN int32_t next_collective(uint16_t row);

#endif
