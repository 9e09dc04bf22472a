/* Hooks that compilers call with -finstrument-functions. */
#ifndef CHIMBUKO_HOOKS_H
#define CHIMBUKO_HOOKS_H

void __cyg_profile_func_enter(void *function, void *caller);
void __cyg_profile_func_exit(void *function, void *caller);

#endif
