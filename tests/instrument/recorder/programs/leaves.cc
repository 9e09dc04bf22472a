// Leaves calls in unusual ways, so many times each: by exceptions, pthread_exit, cancellation and vfork.
#include <cerrno>
#include <ctime>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

#define KEPT extern "C" __attribute__((noinline))
static volatile long sink;

KEPT void rest(long ms)
{
    timespec left = {0, ms * 1000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        continue;
}

KEPT void after() { rest(5); }

KEPT void throws(int depth)
{
    sink = sink + depth;
    if (depth == 0)
        throw std::runtime_error("left");
    throws(depth - 1);
    sink = sink + 1;
}

KEPT void exceptions(int rounds)
{
    for (int round = 0; round < rounds; round++) {
        try {
            throws(3);
        } catch (const std::runtime_error &) {
            sink = sink + 1;
        }
        after();
    }
}

KEPT void ends(int depth)
{
    sink = sink + depth;
    if (depth == 0)
        pthread_exit(nullptr);
    ends(depth - 1);
    sink = sink + 1;
}

KEPT void waits() { rest(60000); }

static void *exiting(void *)
{
    ends(2);
    return nullptr;
}

static void *cancelled(void *)
{
    waits();
    return nullptr;
}

KEPT void threads(int rounds, bool is_cancelled)
{
    for (int round = 0; round < rounds; round++) {
        pthread_t thread;
        pthread_create(&thread, nullptr, is_cancelled ? cancelled : exiting, nullptr);
        rest(5);
        if (is_cancelled)
            pthread_cancel(thread);
        pthread_join(thread, nullptr);
        after();
    }
}

/* Each thread is cancelled as it begins, where what records it may be opening files. */
KEPT void cancelled_early(int rounds)
{
    for (int round = 0; round < 20 * rounds; round++) {
        pthread_t thread;
        pthread_create(&thread, nullptr, cancelled, nullptr);
        pthread_cancel(thread);
        pthread_join(thread, nullptr);
    }
}

KEPT void in_child(int code)
{
    sink = sink + 1;
    if (code == 0)
        execl("/bin/true", "true", nullptr);
    _exit(code);
}

KEPT void forks(int rounds)
{
    for (int round = 0; round < rounds; round++) {
        pid_t child = vfork();
        if (child == 0)
            in_child(round % 2);
        waitpid(child, nullptr, 0);
        after();
    }
}

int main(int, char **words)
{
    const std::string what = words[1];
    const int rounds = std::stoi(words[2]);
    if (what == "exceptions")
        exceptions(rounds);
    else if (what == "vfork")
        forks(rounds);
    else if (what == "cancel early")
        cancelled_early(rounds);
    else
        threads(rounds, what == "cancel");
    if (words[3] != nullptr)
        _exit(0);
    return 0;
}
