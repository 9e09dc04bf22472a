/* Functions of the program: those that the compiler instruments, and those that the program names. */
#include "recorder.h"

#include <string.h>

EXPORTED void __cyg_profile_func_enter(void *function, void *caller)
{
    (void)caller;
    enter((Key)(uintptr_t)function);
}

EXPORTED void __cyg_profile_func_exit(void *function, void *caller)
{
    (void)caller;
    leave((Key)(uintptr_t)function, SHORT_NS);
}

/* 0 where nothing is recorded; else a number that chimbuko_enter, chimbuko_leave and chimbuko_count take. */
EXPORTED unsigned chimbuko_name(const char *name)
{
    Key key = key_of_name(name);
    return key == 0 ? 0 : (unsigned)(key & ~NAMED) + 1;
}

EXPORTED void chimbuko_enter(unsigned name)
{
    if (name != 0)
        enter(NAMED | (name - 1));
}

EXPORTED void chimbuko_leave(unsigned name)
{
    if (name != 0)
        leave(NAMED | (name - 1), SHORT_NS);
}

EXPORTED void chimbuko_count(unsigned name, double value)
{
    if (name != 0)
        record(COUNTER, (struct event){.value = value, .tag = (int32_t)(name - 1)});
}
