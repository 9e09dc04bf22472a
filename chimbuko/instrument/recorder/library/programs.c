/* Programs that a process starts or becomes: one that is linked with another MPI than this library was built for gets
 * the library that was, and one that is started without any is noted. */
#define _GNU_SOURCE
#include "recorder.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "functions.h"

#define PRELOAD "LD_PRELOAD"
#define INTERPRETER_VARIABLE "CHIMBUKO_RECORDER_PYTHON"
#define HOME_VARIABLE "CHIMBUKO_RECORDER_HOME" /* folder of the package */
#define PRELOAD_VARIABLE "CHIMBUKO_RECORDER_PRELOAD" /* what LD_PRELOAD was */
#define TRIED_VARIABLE "CHIMBUKO_RECORDER_TRIED" /* process for which the right library was looked for */
#define AGAIN                                                                                                \
    "import sys; sys.path.insert(0, sys.argv[1]); del sys.argv[1]; "                                         \
    "from chimbuko.instrument.recorder.again import main; main()"

extern char **environ;

#define NEXT(function) ((__typeof__(&function))dlsym(RTLD_NEXT, #function))

static const char *value_in(char *const *environment, const char *name)
{
    size_t length = strlen(name);
    for (; environment != NULL && *environment != NULL; environment++)
        if (strncmp(*environment, name, length) == 0 && (*environment)[length] == '=')
            return *environment + length + 1;
    return NULL;
}

/* --- The library for the MPI of this process --- */

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

static bool is_mpi(const char *name)
{
    static const char *const names[] = {"libmpi.so", "libmpich.so", "libmpi_abi.so", "libmpi_cray.so",
                                        "libmpi_gnu_"};
    for (unsigned each = 0; each < sizeof names / sizeof *names; each++)
        if (strncmp(name, names[each], strlen(names[each])) == 0)
            return true;
    return false;
}

/* Note the path of an MPI that is loaded, unless the one whose functions are wrapped is, too. */
static int note_other_mpi(struct dl_phdr_info *info, size_t size, void *found)
{
    const char *name = name_of(info->dlpi_name);
    (void)size;
    bool is_wrapped = strcmp(name, wrapped_mpi) == 0 && *name != '\0';
    if (is_wrapped || is_mpi(name))
        *(const char **)found = is_wrapped ? NULL : info->dlpi_name;
    return is_wrapped;
}

/* Become this program again, with the library for the MPI that it has loaded, which Python finds or builds; return
 * where that is not possible. Nothing has begun yet: this is called before main. */
void become_recorded(char **words)
{
    const char *interpreter = getenv(INTERPRETER_VARIABLE), *home = getenv(HOME_VARIABLE);
    const char *preload = getenv(PRELOAD), *tried = getenv(TRIED_VARIABLE);
    const char *mpi = NULL;
    char path[PATH_BYTES];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (interpreter == NULL || home == NULL || preload == NULL || length <= 0 || words == NULL)
        return;
    dl_iterate_phdr(note_other_mpi, &mpi);
    if (mpi == NULL || (tried != NULL && atol(tried) == (long)getpid()))
        return;
    path[length] = '\0';
    size_t count = 0;
    while (words[count] != NULL)
        count++;
    const char **again = calloc(count + 8, sizeof *again);
    if (again == NULL || setenv(PRELOAD_VARIABLE, preload, 1) != 0)
        return;
    const char *first[] = {interpreter, "-P", "-c", AGAIN, home, mpi, path};
    memcpy(again, first, sizeof first);
    memcpy(again + 7, words, count * sizeof *again);
    unsetenv(PRELOAD);
    /* Not by our own function: that would note that this one is started without the library. */
    NEXT(execve)(interpreter, (char *const *)again, environ);
    setenv(PRELOAD, preload, 1);
    unsetenv(PRELOAD_VARIABLE);
    free(again);
}

/* --- Programs that are started without the library --- */

static bool is_ours(const char *preload)
{
    Dl_info own;
    return preload != NULL && dladdr((void *)&become_recorded, &own) != 0 && strstr(preload, own.dli_fname) != NULL;
}

/* Note a program that is started with an environment in which nothing records it. */
static void note_start(const char *path, char *const *environment)
{
    const char *preload = value_in(environment, PRELOAD);
    if (recorder_folder()[0] == '\0' || is_only_counting || is_ours(preload))
        return;
    char name[PATH_BYTES + 160], text[3 * PATH_BYTES], own[PATH_BYTES];
    ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    own[length < 0 ? 0 : length] = '\0';
    snprintf(name, sizeof name, "%s/%d-%lld.unrecorded", recorder_folder(), (int)getpid(), (long long)now_ns());
    length = snprintf(text, sizeof text, "%s\n%s\n%s\n", own, path, preload == NULL ? "" : preload);
    int file = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file >= 0) {
        if (write(file, text, (size_t)length < sizeof text ? (size_t)length : sizeof text - 1) < 0)
            unlink(name);
        close(file);
    }
}

/* This process ends in order, as it becomes another program; where it does not, it goes on. */
static void begin_exec(const char *path, char *const *environment)
{
    note_start(path, environment);
    if (process != NULL && process->pid == (uint32_t)getpid())
        atomic_store(&process->end_ns, now_ns());
}

static int has_failed(int result)
{
    if (process != NULL && process->pid == (uint32_t)getpid())
        atomic_store(&process->end_ns, 0);
    return result;
}

EXPORTED int execve(const char *path, char *const words[], char *const environment[])
{
    begin_exec(path, environment);
    return has_failed(NEXT(execve)(path, words, environment));
}

EXPORTED int execv(const char *path, char *const words[])
{
    begin_exec(path, environ);
    return has_failed(NEXT(execv)(path, words));
}

EXPORTED int execvp(const char *file, char *const words[])
{
    begin_exec(file, environ);
    return has_failed(NEXT(execvp)(file, words));
}

EXPORTED int execvpe(const char *file, char *const words[], char *const environment[])
{
    begin_exec(file, environment);
    return has_failed(NEXT(execvpe)(file, words, environment));
}

enum { MOST_WORDS = 4096 };

/* Take in the words of execl and its like; what stands behind them is the environment of execle. */
static void take_words(char **words, const char *first, va_list others)
{
    unsigned count = 0;
    words[count] = (char *)first;
    while (words[count] != NULL && count < MOST_WORDS - 1)
        words[++count] = va_arg(others, char *);
    words[count] = NULL;
}

EXPORTED int execl(const char *path, const char *first, ...)
{
    char *words[MOST_WORDS];
    va_list others;
    va_start(others, first);
    take_words(words, first, others);
    va_end(others);
    return execv(path, words);
}

EXPORTED int execlp(const char *file, const char *first, ...)
{
    char *words[MOST_WORDS];
    va_list others;
    va_start(others, first);
    take_words(words, first, others);
    va_end(others);
    return execvp(file, words);
}

EXPORTED int execle(const char *path, const char *first, ...)
{
    char *words[MOST_WORDS];
    va_list others;
    va_start(others, first);
    take_words(words, first, others);
    char *const *environment = va_arg(others, char *const *);
    va_end(others);
    return execve(path, words, environment);
}

EXPORTED int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                         const posix_spawnattr_t *attributes, char *const words[], char *const environment[])
{
    note_start(path, environment);
    return NEXT(posix_spawn)(pid, path, actions, attributes, words, environment);
}

EXPORTED int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                          const posix_spawnattr_t *attributes, char *const words[], char *const environment[])
{
    note_start(file, environment);
    return NEXT(posix_spawnp)(pid, file, actions, attributes, words, environment);
}
