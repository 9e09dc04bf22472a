/* The least that a wrapper of MPI can be. */
#include <mpi.h>

int MPI_Comm_size(MPI_Comm comm, int *size) { return PMPI_Comm_size(comm, size); }

int MPI_Irecv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Request *request)
{
    return PMPI_Irecv(buf, count, type, source, tag, comm, request);
}

int MPI_Isend(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm, MPI_Request *request)
{
    return PMPI_Isend(buf, count, type, dest, tag, comm, request);
}

int MPI_Waitall(int count, MPI_Request *requests, MPI_Status *statuses)
{
    return PMPI_Waitall(count, requests, statuses);
}
