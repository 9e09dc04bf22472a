/* Constructs of OpenMP. With -DLOADER it is a program without OpenMP that loads a library with these. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef LOADER
#include <dlfcn.h>
int main(int count, char **words)
{
    void *library = count > 1 ? dlopen(words[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    int (*work)(void) = library == NULL ? NULL : (int (*)(void))dlsym(library, "work");
    return work == NULL ? 1 : work();
}
#else
#include <omp.h>
#include <pthread.h>

enum { STEPS = 30 };
static int total;

__attribute__((noinline)) static void solve(void)
{
#pragma omp parallel num_threads(3)
    usleep(omp_get_thread_num() == 1 ? 20000 : 100);
}

__attribute__((noinline)) static void update(void)
{
#pragma omp parallel num_threads(3)
    {
#pragma omp for schedule(dynamic)
        for (int i = 0; i < 6; i++)
            usleep(10);
#pragma omp critical
        {
            usleep(300);
            total++;
        }
#pragma omp barrier
        usleep(10);
    }
}

__attribute__((noinline)) static void nest(void)
{
    omp_set_max_active_levels(2);
#pragma omp parallel num_threads(2)
    {
#pragma omp parallel num_threads(2)
        {
#pragma omp atomic
            total++;
        }
        /* What follows is in the outer region again. */
#pragma omp barrier
        usleep(10);
    }
}

__attribute__((noinline)) static void tasks(void)
{
#pragma omp parallel num_threads(2)
#pragma omp single
    {
        for (int i = 0; i < 5; i++) {
#pragma omp task
            usleep(100);
        }
#pragma omp taskwait
    }
}

static void *other(void *unused)
{
    nest();
    return unused;
}

int work(void)
{
    for (int step = 0; step < STEPS; step++) {
        solve();
        update();
    }
    nest();
    tasks();
    pthread_t thread;
    pthread_create(&thread, NULL, other, NULL);
    pthread_join(thread, NULL);
    pid_t child = fork();
    if (child == 0) {
        /* GCC's runtime has no threads in a child whose parent has some. */
#pragma omp parallel num_threads(1)
        total++;
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    return status != 0 || total != 3 * STEPS + 8;
}

int main(void) { return work(); }
#endif
