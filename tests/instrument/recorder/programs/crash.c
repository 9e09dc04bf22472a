/* Ends in the way that its argument says, in the middle of calls. */
#include <alloca.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile int *nowhere;

__attribute__((noinline)) void fail(const char *how)
{
    if (strcmp(how, "segfault") == 0)
        *nowhere = 1;
    else if (strcmp(how, "abort") == 0)
        abort();
    else if (strcmp(how, "kill") == 0)
        raise(SIGKILL);
    else if (strcmp(how, "leave") == 0)
        _exit(3);
    else if (strcmp(how, "overflow") == 0)
        fail(strcat(memset(alloca(4096), 0, 8), how));
}

__attribute__((noinline)) void solve(const char *how) { fail(how); puts("not reached"); }

int main(int count, char **words)
{
    solve(words[count - 1]);
    return 0;
}
