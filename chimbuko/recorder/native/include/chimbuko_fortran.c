/* What the Fortran module calls: compile it with the program, beside chimbuko.f90. Fortran knows no weak symbols. */
#include "chimbuko.h"

unsigned chimbuko_fortran_name(const char *name) { return chimbuko_name ? chimbuko_name(name) : 0; }

void chimbuko_fortran_enter(unsigned number) { chimbuko_enter_known(number); }

void chimbuko_fortran_leave(unsigned number) { chimbuko_leave_known(number); }

void chimbuko_fortran_count(unsigned number, double value)
{
    if (number != 0 && chimbuko_count)
        chimbuko_count(number, value);
}
