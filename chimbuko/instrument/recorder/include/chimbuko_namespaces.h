/* Publication of values from a program in C or C++, under hierarchical keys.
 *
 *     static chimbuko_namespace application = CHIMBUKO_NAMESPACE("application");
 *     chimbuko_update(&application, "Rank 3/local_mass", mass);
 *     chimbuko_update_integer(&application, "step", step);
 *     chimbuko_commit(&application);
 *
 * It is published where the program, or what starts it, runs under 'chimbuko namespaces relay'; else all of it does
 * nothing. Nothing has to be linked. No call waits for anybody: what is published goes into a file in this node's
 * memory, which the relay reads. A namespace belongs to one thread, and after fork() to nobody. */
#ifndef CHIMBUKO_NAMESPACES_H
#define CHIMBUKO_NAMESPACES_H

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHIMBUKO_NAMESPACES_UNUSED __attribute__((unused, no_instrument_function))
/* Folder in which each process has a file. */
#define CHIMBUKO_RELAY_VARIABLE "CHIMBUKO_RELAY"
/* Most bytes that wait to be read; further publications are lost, and counted. */
#define CHIMBUKO_RELAY_MOST_BYTES (64LL << 20)

/* A namespace, with the updates that are not published yet as lines of kind, key, type and value. */
typedef struct {
    const char *name;
    int frequency;
    int commits;
    int is_open; /* 0: not tried yet; 1: open; -1: nobody listens */
    int file;
    pid_t process;
    int rank;
    unsigned long lost;
    char *lines;
    size_t size, room, committed;
} chimbuko_namespace;

#define CHIMBUKO_NAMESPACE(name)                                                                             \
    {                                                                                                        \
        name, 1, 0, 0, -1, 0, 0, 0, 0, 0, 0, 0                                                                  \
    }

/* Rank that the launcher says; 0 where none does. */
static __inline__ CHIMBUKO_NAMESPACES_UNUSED int chimbuko_relay_rank(void)
{
    static const char *const variables[] = {
        "CHIMBUKO_RANK",    "OMPI_COMM_WORLD_RANK", "PMIX_RANK",          "PMI_RANK",
        "MV2_COMM_WORLD_RANK", "PALS_RANKID",       "FLUX_TASK_RANK",     "JSM_NAMESPACE_RANK",
        "ALPS_APP_PE",      "CRAY_PMI_RANK",        "SLURM_PROCID",
    };
    size_t at;
    for (at = 0; at < sizeof variables / sizeof *variables; at++) {
        const char *value = getenv(variables[at]);
        if (value != NULL && *value >= '0' && *value <= '9')
            return atoi(value);
    }
    return 0;
}

static __inline__ CHIMBUKO_NAMESPACES_UNUSED int chimbuko_relay_open(chimbuko_namespace *one)
{
    const char *folder;
    char path[4096];
    if (one->is_open != 0)
        return one->is_open > 0 && one->process == getpid();
    one->is_open = -1;
    folder = getenv(CHIMBUKO_RELAY_VARIABLE);
    if (folder == NULL || snprintf(path, sizeof path, "%s/%ld", folder, (long)getpid()) >= (int)sizeof path)
        return 0;
    one->file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (one->file < 0)
        return 0;
    one->process = getpid();
    one->rank = chimbuko_relay_rank();
    one->is_open = 1;
    return 1;
}

/* Adds to the lines; returns 0 without memory for it, and then the whole update is dropped. */
static __inline__ CHIMBUKO_NAMESPACES_UNUSED int chimbuko_relay_add(chimbuko_namespace *one, const char *text,
                                                                    size_t length)
{
    if (one->size + length > one->room) {
        size_t room = one->room ? one->room : 4096;
        char *lines;
        while (room < one->size + length)
            room *= 2;
        lines = (char *)realloc(one->lines, room);
        if (lines == NULL)
            return 0;
        one->lines = lines;
        one->room = room;
    }
    memcpy(one->lines + one->size, text, length);
    one->size += length;
    return 1;
}

/* Adds a text with separators of fields and lines escaped; NULL counts as an empty text. */
static __inline__ CHIMBUKO_NAMESPACES_UNUSED int chimbuko_relay_add_text(chimbuko_namespace *one, const char *text)
{
    int is_whole = 1;
    for (; text && *text && is_whole; text++) {
        const char *escaped = *text == '\\' ? "\\\\" : *text == '\t' ? "\\t" : *text == '\n' ? "\\n" : NULL;
        is_whole = escaped ? chimbuko_relay_add(one, escaped, 2) : chimbuko_relay_add(one, text, 1);
    }
    return is_whole;
}

static __inline__ CHIMBUKO_NAMESPACES_UNUSED void chimbuko_relay_update(chimbuko_namespace *one, char mode,
                                                                        const char *key, char type,
                                                                        const char *value)
{
    char head[3] = {mode, '\t', 0}, middle[4] = {'\t', type, '\t', 0};
    size_t before = one->size;
    if (!chimbuko_relay_open(one))
        return;
    if (!(chimbuko_relay_add(one, head, 2) && chimbuko_relay_add_text(one, key) &&
          chimbuko_relay_add(one, middle, 3) && chimbuko_relay_add_text(one, value) &&
          chimbuko_relay_add(one, "\n", 1)))
        one->size = before;
}

/* Sets a value. */
static __inline__ CHIMBUKO_NAMESPACES_UNUSED void chimbuko_update(chimbuko_namespace *one, const char *key,
                                                                  double value)
{
    char text[64];
    /* In hexadecimal, which is exact, and the same in all locales. */
    snprintf(text, sizeof text, "%a", value);
    chimbuko_relay_update(one, '=', key, 'd', text);
}

static __inline__ CHIMBUKO_NAMESPACES_UNUSED void chimbuko_update_integer(chimbuko_namespace *one,
                                                                          const char *key, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    chimbuko_relay_update(one, '=', key, 'i', text);
}

static __inline__ CHIMBUKO_NAMESPACES_UNUSED void chimbuko_update_boolean(chimbuko_namespace *one,
                                                                          const char *key, int value)
{
    chimbuko_relay_update(one, '=', key, 'b', value ? "1" : "0");
}

static __inline__ CHIMBUKO_NAMESPACES_UNUSED void chimbuko_update_text(chimbuko_namespace *one, const char *key,
                                                                       const char *value)
{
    chimbuko_relay_update(one, '=', key, 's', value);
}

/* Sets an array, or appends to one: '=' or '+'. */
static __inline__ CHIMBUKO_NAMESPACES_UNUSED void chimbuko_relay_array(chimbuko_namespace *one, char mode,
                                                                       const char *key, const double *values,
                                                                       size_t number)
{
    /* "-0x1.fffffffffffffp+1023 " has 25 bytes. */
    char *text = chimbuko_relay_open(one) ? (char *)malloc(number * 32 + 1) : NULL;
    size_t at = 0, value;
    if (text == NULL)
        return;
    text[0] = 0;
    for (value = 0; value < number; value++)
        at += (size_t)snprintf(text + at, 32, "%a ", values[value]);
    chimbuko_relay_update(one, mode, key, 'D', text);
    free(text);
}

static __inline__ CHIMBUKO_NAMESPACES_UNUSED void chimbuko_update_array(chimbuko_namespace *one, const char *key,
                                                                        const double *values, size_t number)
{
    chimbuko_relay_array(one, '=', key, values, number);
}

/* Appends a number to an array. */
static __inline__ CHIMBUKO_NAMESPACES_UNUSED void chimbuko_append(chimbuko_namespace *one, const char *key,
                                                                  double value)
{
    chimbuko_relay_array(one, '+', key, &value, 1);
}

/* Publishes once for so many commits; 1 by default. */
static __inline__ CHIMBUKO_NAMESPACES_UNUSED void chimbuko_set_publish_frequency(chimbuko_namespace *one,
                                                                                 int frequency)
{
    one->frequency = frequency < 1 ? 1 : frequency;
}

/* Publishes what was committed. */
static __inline__ CHIMBUKO_NAMESPACES_UNUSED void chimbuko_relay_send(chimbuko_namespace *one)
{
    char line[320];
    struct stat held;
    size_t open_size = one->size - one->committed, length, at = 0;
    char *updates = NULL;
    if (one->committed == 0 || !chimbuko_relay_open(one)) {
        one->commits = 0;
        return;
    }
    length = (size_t)snprintf(line, sizeof line, "!\t%.128s\t%d\t%d\t%lu\n", one->name, one->rank,
                              one->commits, one->lost);
    updates = (char *)malloc(one->committed + length);
    if (updates != NULL && fstat(one->file, &held) == 0 &&
        (long long)held.st_blocks * 512 < CHIMBUKO_RELAY_MOST_BYTES) {
        memcpy(updates, one->lines, one->committed);
        memcpy(updates + one->committed, line, length);
        length += one->committed;
        /* In one piece, as threads may write other namespaces into the same file. */
        while (at < length) {
            ssize_t written = write(one->file, updates + at, length - at);
            if (written < 0 && errno == EINTR)
                continue;
            if (written <= 0)
                break;
            at += (size_t)written;
        }
        one->lost = at == length ? 0 : one->lost + 1;
    } else
        one->lost++;
    free(updates);
    memmove(one->lines, one->lines + one->committed, open_size);
    one->size = open_size;
    one->committed = 0;
    one->commits = 0;
}

/* Ends a group of updates that belong together, and publishes if the set number of commits is reached. */
static __inline__ CHIMBUKO_NAMESPACES_UNUSED void chimbuko_commit(chimbuko_namespace *one)
{
    one->committed = one->size;
    if (++one->commits >= one->frequency)
        chimbuko_relay_send(one);
}

/* Commits, and publishes what was committed, whatever the frequency. */
static __inline__ CHIMBUKO_NAMESPACES_UNUSED void chimbuko_publish(chimbuko_namespace *one)
{
    one->committed = one->size;
    one->commits++;
    chimbuko_relay_send(one);
}

#endif
