/* The procedures of the Fortran module: compile this file with the program, beside chimbuko.f90. Written in Fortran
 * they could neither do without the library, nor be excluded from -finstrument-functions, so that a region would end
 * with the procedure that begins it. */
#include <stddef.h>
#include <string.h>

#include "chimbuko.h"

/* Compilers append one underscore to names of Fortran, or two, or none. */
#define FORTRAN(name, parameters)                                                                            \
    void name##_ parameters __attribute__((no_instrument_function));                                         \
    void name##__ parameters __attribute__((no_instrument_function, alias(#name "_")));                      \
    void name parameters __attribute__((no_instrument_function, alias(#name "_")));                          \
    void name##_ parameters

static CHIMBUKO_UNSEEN unsigned number_of(int *known, const char *text, size_t length)
{
    char name[CHIMBUKO_NAME_BYTES] = "";
    /* Some compilers pass a length of 32 bits. */
    size_t bytes = length & 0xffffffffu;
    if (*known == 0) {
        while (bytes > 0 && text[bytes - 1] == ' ')
            bytes--;
        memcpy(name, text, bytes < sizeof name ? bytes : sizeof name - 1);
    }
    return chimbuko_number((unsigned *)known, name);
}

FORTRAN(chimbuko_begin_region, (int *known, const char *name, size_t length))
{
    chimbuko_enter_known(number_of(known, name, length));
}

FORTRAN(chimbuko_end_region, (const int *known))
{
    if (*known > 0)
        chimbuko_leave_known((unsigned)*known - 1);
}

FORTRAN(chimbuko_count_value, (int *known, const char *name, const double *value, size_t length))
{
    unsigned counter = number_of(known, name, length);
    if (counter != 0 && chimbuko_count)
        chimbuko_count(counter, *value);
}
