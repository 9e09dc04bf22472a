/* Conversions from Fortran. MPI's own are functions in some MPIs, and macros in others. */
#define _GNU_SOURCE
#include "fortran.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

FortranFunction find_fortran(const char *name) { return (FortranFunction)dlsym(RTLD_NEXT, name); }

#define CONVERSION(function, Type, name)                                                                     \
    Type function(const void *handle)                                                                        \
    {                                                                                                        \
        static void *volatile found;                                                                         \
        if (UNLIKELY(found == NULL))                                                                         \
            found = find_mpi("PMPI_" name);                                                                  \
        return ((Type(*)(MPI_Fint))found)(*(const MPI_Fint *)handle);                                        \
    }

#ifdef MPI_Comm_f2c
MPI_Comm comm_of(const void *handle) { return MPI_Comm_f2c(*(const MPI_Fint *)handle); }
#else
CONVERSION(comm_of, MPI_Comm, "Comm_f2c")
#endif
#ifdef MPI_Type_f2c
MPI_Datatype type_of(const void *handle) { return MPI_Type_f2c(*(const MPI_Fint *)handle); }
#else
CONVERSION(type_of, MPI_Datatype, "Type_f2c")
#endif
#ifdef MPI_Request_f2c
MPI_Request request_of(const void *handle) { return MPI_Request_f2c(*(const MPI_Fint *)handle); }
#else
CONVERSION(request_of, MPI_Request, "Request_f2c")
#endif
#ifdef MPI_Message_f2c
MPI_Message message_of_fortran(const void *handle) { return MPI_Message_f2c(*(const MPI_Fint *)handle); }
#else
CONVERSION(message_of_fortran, MPI_Message, "Message_f2c")
#endif
#ifdef MPI_Win_f2c
MPI_Win win_of(const void *handle) { return MPI_Win_f2c(*(const MPI_Fint *)handle); }
#else
CONVERSION(win_of, MPI_Win, "Win_f2c")
#endif
#if MPI_VERSION >= 4
#ifdef MPI_Session_f2c
MPI_Session session_of(const void *handle) { return MPI_Session_f2c(*(const MPI_Fint *)handle); }
#else
CONVERSION(session_of, MPI_Session, "Session_f2c")
#endif
#endif

/* Fortran's constants are addresses; each has one of these names, depending on the compiler. */
static bool is_one_of(const void *place, const char *const *names)
{
    for (; *names != NULL; names++) {
        const void *found = dlsym(RTLD_DEFAULT, *names);
        if (found != NULL && found == place)
            return true;
    }
    return false;
}

static bool is_in_place(const void *place)
{
    static const char *const names[] = {"mpi_fortran_in_place_",  "mpi_fortran_in_place", "mpi_fortran_in_place__",
                                        "MPI_FORTRAN_IN_PLACE",   "MPIR_F08_MPI_IN_PLACE", NULL};
    static const void *volatile known;
    if (place == known && known != NULL)
        return true;
    if (!is_one_of(place, names))
        return false;
    known = place;
    return true;
}

const void *buffer_of(const void *buffer) { return is_in_place(buffer) ? MPI_IN_PLACE : buffer; }

static bool is_ignored(const void *status)
{
    static const char *const pointers[] = {"MPI_F_STATUS_IGNORE", "MPI_F_STATUSES_IGNORE", "MPI_F08_STATUS_IGNORE",
                                           "MPI_F08_STATUSES_IGNORE", NULL};
    static const char *const places[] = {
        "mpi_fortran_status_ignore_",  "mpi_fortran_statuses_ignore_",  "mpi_fortran_status_ignore",
        "mpi_fortran_statuses_ignore", "mpi_fortran_status_ignore__",   "mpi_fortran_statuses_ignore__",
        "MPI_FORTRAN_STATUS_IGNORE",   "MPI_FORTRAN_STATUSES_IGNORE",   "MPIR_F08_MPI_STATUS_IGNORE_OBJ",
        "MPIR_F08_MPI_STATUSES_IGNORE_OBJ", NULL};
    for (const char *const *name = pointers; *name != NULL; name++) {
        void *const *found = dlsym(RTLD_DEFAULT, *name);
        if (found != NULL && *found == status)
            return true;
    }
    return is_one_of(status, places);
}

/* A constant that was found once is known by its address, which is its own for good. */
static bool is_known_ignored(const void *status)
{
    enum { PLACES = 16 };
    static _Atomic(const void *) ignored[PLACES];
    for (int number = 0; number < PLACES; number++) {
        const void *place = atomic_load_explicit(&ignored[number], memory_order_relaxed);
        if (place == status)
            return true;
        if (place == NULL) {
            if (!is_ignored(status))
                return false;
            atomic_store(&ignored[number], status);
            return true;
        }
    }
    return is_ignored(status);
}

void *known_status(void *status, FortranStatus *own) { return is_known_ignored(status) ? (void *)own : status; }

static void convert_status(const MPI_Fint *from, MPI_Status *to)
{
    static void *volatile found;
    if (UNLIKELY(found == NULL))
        found = find_mpi("PMPI_Status_f2c");
    ((int (*)(const MPI_Fint *, MPI_Status *))found)(from, to);
}

const MPI_Status *status_of(const void *status, MPI_Status *converted)
{
    convert_status(status, converted);
    return converted;
}

void hold_fortran(struct waiting *waiting, int count, const void *requests, void **statuses)
{
    MPI_Request few[FEW], *converted = count > FEW ? malloc((size_t)count * sizeof *converted) : few;
    for (int number = 0; converted != NULL && number < count; number++)
        converted[number] = request_of((const MPI_Fint *)requests + number);
    hold(waiting, converted == NULL ? 0 : count, converted, NULL);
    if (converted == NULL && count > FEW)
        waiting->handles = NULL;
    if (converted != few)
        free(converted);
    waiting->count = count;
    waiting->first_index = 1;
    if (statuses == NULL)
        return;
    if (is_known_ignored(*statuses)) {
        size_t words = (size_t)(count > 0 ? count : 1) * FORTRAN_STATUS_WORDS;
        waiting->made_fortran = malloc(words * sizeof *waiting->made_fortran);
        if (waiting->made_fortran == NULL)
            waiting->handles = NULL;
        else
            *statuses = waiting->made_fortran;
    }
    waiting->fortran_statuses = *statuses;
}

static bool has_ended(const struct waiting *waiting, const void *requests, int index)
{
    return index >= 0 && index < waiting->count && waiting->handles != NULL &&
           waiting->handles[index] != HANDLE(MPI_REQUEST_NULL) &&
           request_of((const MPI_Fint *)requests + index) == MPI_REQUEST_NULL;
}

/* Fortran counts from 1, except for MPICH 4.0's module of Fortran 2008, by mistake. The requests show which. */
int index_of(const struct waiting *waiting, const void *requests, int index)
{
    if (index == MPI_UNDEFINED)
        return index;
    bool is_from_0 = !has_ended(waiting, requests, index - 1) && has_ended(waiting, requests, index);
    return is_from_0 ? index : index - 1;
}

void take_fortran_statuses(struct waiting *waiting)
{
    for (int number = 0; waiting->statuses != NULL && waiting->handles != NULL && number < waiting->count; number++)
        convert_status(waiting->fortran_statuses + number * FORTRAN_STATUS_WORDS, &waiting->statuses[number]);
}
