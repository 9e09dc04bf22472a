/* MPI's functions, as the wrappers number them, and the MPI itself. */
#ifndef CHIMBUKO_FUNCTIONS_H
#define CHIMBUKO_FUNCTIONS_H

extern __attribute__((visibility("hidden"))) const char *const function_names[];
extern __attribute__((visibility("hidden"))) const unsigned function_count;
/* The file of the MPI whose functions are wrapped; empty for none. */
extern __attribute__((visibility("hidden"))) const char *const wrapped_mpi;

#endif
