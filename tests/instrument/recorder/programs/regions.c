/* Regions and counters by name, threads, jumps, forks: in C and in C++, recorded or not. */
#include <chimbuko.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static jmp_buf place;
static volatile long sum;

__attribute__((noinline)) static void inner(void)
{
    CHIMBUKO_REGION("inner");
    sum++;
}

__attribute__((noinline)) static void jumping(void)
{
    chimbuko_begin("left by a jump");
    longjmp(place, 1);
}

static void *work(void *argument)
{
    (void)argument;
    for (int number = 0; number < 100; number++)
        inner();
    return NULL;
}

int main(void)
{
    pthread_t threads[4];
    chimbuko_begin("outer");
    for (int number = 0; number < 10; number++) {
        CHIMBUKO_REGION("step");
        inner();
        CHIMBUKO_COUNT("number", number);
    }
    if (setjmp(place) == 0)
        jumping();
    for (int number = 0; number < 4; number++)
        pthread_create(&threads[number], NULL, work, NULL);
    for (int number = 0; number < 4; number++)
        pthread_join(threads[number], NULL);
    pid_t child = fork();
    if (child == 0) {
        for (int number = 0; number < 7; number++)
            inner();
        exit(0);
    }
    waitpid(child, NULL, 0);
    chimbuko_end("outer");
    printf("sum %ld\n", sum);
    return 0;
}
