// Leaves MPI calls by an exception or a jump of an error's handler, and goes on; on stacks of its own, too.
#include <csetjmp>
#include <cstdlib>
#include <cstring>
#include <mpi.h>
#include <ucontext.h>

enum { ROUNDS = 5, STACK_BYTES = 1 << 16 };
static jmp_buf top;
static bool is_jump;
static ucontext_t home, other;

static void on_error(MPI_Comm *, int *code, ...)
{
    if (is_jump)
        longjmp(top, 1);
    throw *code;
}

static void receive()
{
    int got;
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Recv(&got, 1, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);
        swapcontext(&other, &home);
    }
}

static void stacks()
{
    getcontext(&other);
    other.uc_stack.ss_sp = malloc(STACK_BYTES);
    other.uc_stack.ss_size = STACK_BYTES;
    other.uc_link = &home;
    makecontext(&other, receive, 0);
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Request request;
        MPI_Isend(&round, 1, MPI_INT, 0, 0, MPI_COMM_SELF, &request);
        swapcontext(&home, &other);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

int main(int count, char **words)
{
    MPI_Init(&count, &words);
    is_jump = strcmp(words[1], "jump") == 0;
    MPI_Errhandler handler;
    MPI_Comm_create_errhandler(on_error, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, handler);
    if (strcmp(words[1], "stacks") == 0)
        stacks();
    else
        for (volatile int round = 0; round < ROUNDS; round = round + 1) {
            try {
                if (!is_jump || setjmp(top) == 0)
                    MPI_Send(words, -1, MPI_INT, 0, 0, MPI_COMM_SELF);
            } catch (int) {
            }
            MPI_Barrier(MPI_COMM_SELF);
        }
    return MPI_Finalize();
}
