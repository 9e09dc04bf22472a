/* What is not simply a program: given as the first argument. */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int tools_barriers;

#ifdef WITH_TOOL
/* A tool linked into the program: it stands before everything else. */
int MPI_Barrier(MPI_Comm comm)
{
    tools_barriers++;
    return PMPI_Barrier(comm);
}
#endif

int main(int count, char **words)
{
    const char *what = count > 1 ? words[1] : "";
    if (strcmp(what, "exec") == 0) {
        execl(words[0], words[0], "plain", (char *)NULL);
        return 9;
    }
    MPI_Init(&count, &words);
    if (strcmp(what, "dlopen") == 0) {
        void *library = dlopen(words[2], RTLD_NOW);
        int (*function)(int) = library == NULL ? NULL : (int (*)(int))dlsym(library, "plugin");
        if (function == NULL || function(3) != 4)
            return 8;
    }
    if (strcmp(what, "spawn") == 0) {
        MPI_Comm children;
        char *arguments[] = {"-m", "chimbuko", "trace", words[0], "child", NULL};
        MPI_Comm_spawn(words[2], arguments, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
        MPI_Barrier(children);
        MPI_Comm_disconnect(&children);
    } else if (strcmp(what, "child") == 0) {
        MPI_Comm parent;
        MPI_Comm_get_parent(&parent);
        MPI_Barrier(parent);
        MPI_Comm_disconnect(&parent);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (strcmp(what, "unfinished") == 0)
        _exit(0);
    MPI_Finalize();
    if (strcmp(what, "tool") == 0)
        printf("barriers %d\n", tools_barriers);
    return 0;
}
