/* Conversion of the arguments of Fortran's functions to those of C's. */
#ifndef CHIMBUKO_FORTRAN_H
#define CHIMBUKO_FORTRAN_H

#include "messages.h"

typedef void (*FortranFunction)(void *, ...);
typedef struct {
    MPI_Fint words[FORTRAN_STATUS_WORDS];
} FortranStatus;

HIDDEN FortranFunction find_fortran(const char *name);
HIDDEN MPI_Comm comm_of(const void *handle);
HIDDEN MPI_Datatype type_of(const void *handle);
HIDDEN MPI_Request request_of(const void *handle);
HIDDEN MPI_Message message_of_fortran(const void *handle);
HIDDEN MPI_Win win_of(const void *handle);
#if MPI_VERSION >= 4
HIDDEN MPI_Session session_of(const void *handle);
#endif
HIDDEN const void *buffer_of(const void *buffer);
HIDDEN const MPI_Status *status_of(const void *status, MPI_Status *converted);
/* The program's status, or one of ours where the program ignores it. */
HIDDEN void *known_status(void *status, FortranStatus *own);
HIDDEN void hold_fortran(struct waiting *waiting, int count, const void *requests, void **statuses);
HIDDEN void take_fortran_statuses(struct waiting *waiting);

#define message_of(handle) message_of_fortran(handle)

/* Whether the argument `ierror`, which may be left out, says success. */
static inline bool has_succeeded(const void *error) { return error == NULL || *(const MPI_Fint *)error == MPI_SUCCESS; }

/* Index of the completed request, counted from 0. */
HIDDEN int index_of(const struct waiting *waiting, const void *requests, int index);

#endif
