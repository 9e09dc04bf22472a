/*
 * Keeps an application alive whose trace is read over ADIOS2's SST, when a reader dies while it joins.
 *
 * Preloaded into the application. It stands between ADIOS2's core and its network library (EVPath), two
 * functions of which are called through the dynamic linker, and mends three things:
 *
 * - A reader that registers waits in a queue until the next step, and its connection with it. If the
 *   reader dies before, the network library frees the connection, and the writer uses it. Here each
 *   connection that a reader registers over gets one more reference, for good (some kB per reader).
 * - The writer asks to be notified of the end of the connection before it has filled in the data that it
 *   then needs. Here it is notified only after it has asked the second time, when the data are there.
 * - Notified while the reader joins, the writer changes nothing, and waits for the reader for ever; notified
 *   between the reader's "I am ready" and its own waking up, it goes on without its lock. Here the writer
 *   gets "I am ready" in the name of the dead reader. It goes on with its step, sends it, sees that this
 *   fails, and closes the reader in the ordinary way; it is notified of the end of the connection a little
 *   later, when it surely waits no more.
 *
 * No field of a structure of ADIOS2 is read or written, but all this depends on how the writer works
 * inside. Hence it acts only with builds with which it was tested (CHECKED_BUILDS, given on the compiler's
 * command line); with any other build every call is passed on unchanged.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__) && defined(__GLIBC__)
/* Old versions of these symbols, so that a container with an older C library can load this library, too. */
__asm__(".symver dladdr,dladdr@GLIBC_2.2.5");
__asm__(".symver dlopen,dlopen@GLIBC_2.2.5");
__asm__(".symver dlsym,dlsym@GLIBC_2.2.5");
#endif

#define EXPORTED __attribute__((visibility("default")))

typedef void *Manager, *Connection, *Format, *Attributes;
typedef void (*MessageHandler)(Manager, Connection, void *message, void *data, Attributes);
typedef void (*CloseHandler)(Manager, Connection, void *data);
typedef void (*RegisterHandler)(Format, MessageHandler, void *data);
typedef void (*RegisterCloseHandler)(Connection, CloseHandler, void *data);
typedef void (*AddReference)(Connection);
typedef void (*Task)(Manager, void *data);
typedef void *(*AddDelayedTask)(Manager, int seconds, int microseconds, Task, void *data);
typedef void (*Release)(void *);

/* Pairs of the build ids of libadios2_evpath and libadios2_core, each as "evpath+core". */
static const char *const checked_builds[] = {CHECKED_BUILDS NULL};

enum { ID_BYTES = 32, ID_TEXT = 2 * ID_BYTES + 1 };

/* Far longer than the waking of the writer's thread, and than the 2 s in which it closes a failed reader. */
enum { SETTLED_S = 3 };

/* One registration of one reader, kept to the end: connections that were given a reference live on too. */
struct Joining {
    struct Joining *next;
    Manager manager;
    Connection connection;
    CloseHandler on_close; /* the writer's handler, and its argument: */
    void *reader;
    int times_asked; /* the writer asks before and after it has filled in the data of its reader */
    bool is_ready;   /* the reader has said so itself, */
    time_t ready_s;  /* at this time */
    bool is_dead;
};

/* The one ADIOS2 that is shielded; a second one in the process is left as it is. */
static struct {
    const void *core; /* where it is mapped; NULL until one is found that was checked */
    MessageHandler on_register, on_ready;
    AddReference add_reference;
    RegisterCloseHandler register_close_handler;
    AddDelayedTask add_delayed_task;
    Release release;
} adios2;
static struct Joining *joinings;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The function that a library would have called without us: the next one in the global order of symbols, else
 * that of the libraries that it is linked with (Python and TAU load ADIOS2 late, and for themselves only). A
 * library that was opened here is never unloaded. */
static void *real(const char *name, const void *in_library)
{
    Dl_info library;
    void *handle, *found = dlsym(RTLD_NEXT, name);
    if (!found && dladdr(in_library, &library) && (handle = dlopen(library.dli_fname, RTLD_LAZY | RTLD_NOLOAD)))
        found = dlsym(handle, name);
    return found;
}

struct Build {
    const char *address; /* any address in the library */
    char id[ID_TEXT];
};

static bool is_mapped(const struct dl_phdr_info *object, const char *from, size_t bytes)
{
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
        const char *begin = (const char *)(object->dlpi_addr + segment->p_vaddr);
        if (segment->p_type == PT_LOAD && (segment->p_flags & PF_R) && from >= begin && bytes <= segment->p_filesz
            && (size_t)(from - begin) <= segment->p_filesz - bytes)
            return true;
    }
    return false;
}

static int find_build(struct dl_phdr_info *object, size_t size, void *data)
{
    struct Build *build = data;
    (void)size;
    if (!is_mapped(object, build->address, 1))
        return 0;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
        const char *note = (const char *)(object->dlpi_addr + segment->p_vaddr);
        size_t left = segment->p_filesz, round = segment->p_align == 8 ? 7 : 3;
        if (segment->p_type != PT_NOTE || !is_mapped(object, note, left))
            continue;
        while (left >= sizeof(ElfW(Nhdr))) {
            const ElfW(Nhdr) *header = (const void *)note;
            size_t name = ((size_t)header->n_namesz + 3) & ~(size_t)3;
            size_t length = (sizeof *header + name + header->n_descsz + round) & ~round;
            const unsigned char *id = (const unsigned char *)note + sizeof *header + name;
            if (length > left)
                break;
            if (header->n_type == NT_GNU_BUILD_ID && header->n_namesz == 4 && header->n_descsz <= ID_BYTES
                && !memcmp(header + 1, "GNU", 4)) {
                for (size_t byte = 0; byte < header->n_descsz; byte++)
                    snprintf(build->id + 2 * byte, 3, "%02x", id[byte]);
                return 1;
            }
            note += length;
            left -= length;
        }
    }
    return 1;
}

/* Report to the analysis, in a file of this process, whether it is shielded; a failure does no harm. */
static void report(bool is_checked, const char *identity, const char *path)
{
    const char *folder = secure_getenv("CHIMBUKO_SHIELD_REPORT");
    char name[4096], line[4096 + 2 * ID_TEXT];
    if (!folder || snprintf(name, sizeof name, "%s/%ld.txt", folder, (long)getpid()) >= (int)sizeof name)
        return;
    int file = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0)
        return;
    int bytes = is_checked ? snprintf(line, sizeof line, "active %s\n", identity)
                           : snprintf(line, sizeof line, "unknown %s %.4000s\n", identity, path);
    ssize_t written = write(file, line, (size_t)bytes);
    (void)written;
    close(file);
}

/* Whether the shield was tested with this pair of libraries. */
static bool is_checked(const void *in_evpath, const void *in_core)
{
    struct Build evpath = {.address = in_evpath}, core = {.address = in_core};
    char identity[2 * ID_TEXT];
    bool found = false;
    Dl_info library = {0};
    dl_iterate_phdr(find_build, &evpath);
    dl_iterate_phdr(find_build, &core);
    snprintf(identity, sizeof identity, "%s+%s", evpath.id[0] ? evpath.id : "-", core.id[0] ? core.id : "-");
    for (int i = 0; checked_builds[i]; i++)
        found = found || !strcmp(checked_builds[i], identity);
    dladdr(in_evpath, &library);
    report(found, identity, library.dli_fname ? library.dli_fname : "?");
    return found;
}

static time_t now_s(void)
{
    struct timespec now = {0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

static void close_later(Manager manager, void *data)
{
    struct Joining *joining = data;
    joining->on_close(manager, joining->connection, joining->reader);
}

/* Tell the writer "I am ready" in the name of a reader that died before or just after it had joined. */
static void let_in(struct Joining *joining, bool is_ready)
{
    struct {
        void *reader;
    } message = {joining->reader};
    if (!is_ready)
        adios2.on_ready(joining->manager, joining->connection, &message, NULL, NULL);
    adios2.release(adios2.add_delayed_task(joining->manager, SETTLED_S, 0, close_later, joining));
}

static void on_close(Manager manager, Connection connection, void *data)
{
    struct Joining *joining = data;
    pthread_mutex_lock(&lock);
    joining->is_dead = true;
    bool is_ready = joining->is_ready, is_awaited = joining->times_asked >= 2;
    bool is_settled = is_ready && now_s() - joining->ready_s > SETTLED_S;
    pthread_mutex_unlock(&lock);
    if (is_settled)
        joining->on_close(manager, connection, joining->reader);
    else if (is_awaited)
        let_in(joining, is_ready);
    /* Else the writer is notified when it asks the second time. */
}

/* A reader registers. The network library itself holds the connection only as long as this call lasts. */
static void on_register(Manager manager, Connection connection, void *message, void *data, Attributes attributes)
{
    struct Joining *joining = calloc(1, sizeof *joining);
    if (joining) {
        joining->manager = manager;
        joining->connection = connection;
        adios2.add_reference(connection);
        pthread_mutex_lock(&lock);
        joining->next = joinings;
        joinings = joining;
        pthread_mutex_unlock(&lock);
        adios2.register_close_handler(connection, on_close, joining);
    }
    adios2.on_register(manager, connection, message, data, attributes);
}

/* A reader is ready: from now on the writer handles its end correctly. */
static void on_ready(Manager manager, Connection connection, void *message, void *data, Attributes attributes)
{
    void *reader = *(void **)message;
    pthread_mutex_lock(&lock);
    struct Joining *joining = joinings;
    while (joining && joining->reader != reader)
        joining = joining->next;
    if (joining) {
        joining->is_ready = true;
        joining->ready_s = now_s();
    }
    pthread_mutex_unlock(&lock);
    adios2.on_ready(manager, connection, message, data, attributes);
}

/* Find the functions that are needed to shield the ADIOS2 of this handler; false where one is missing. */
static bool find_functions(const void *handler)
{
    adios2.add_reference = (AddReference)real("CMConnection_add_reference", handler);
    adios2.register_close_handler = (RegisterCloseHandler)real("CMconn_register_close_handler", handler);
    adios2.add_delayed_task = (AddDelayedTask)real("CMadd_delayed_task", handler);
    adios2.release = (Release)real("CMfree", handler);
    return adios2.add_reference && adios2.register_close_handler && adios2.add_delayed_task && adios2.release;
}

/* The core registers the handler of a kind of message with the network library. */
EXPORTED void CMregister_handler(Format format, MessageHandler handler, void *data)
{
    RegisterHandler pass_on = (RegisterHandler)real("CMregister_handler", (const void *)handler);
    Dl_info core = {0};
    if (!pass_on)
        return; /* impossible: the caller is linked with it */
    dladdr((const void *)handler, &core);
    bool is_register = core.dli_sname && !strcmp(core.dli_sname, "CP_ReaderRegisterHandler");
    bool is_ready = core.dli_sname && !strcmp(core.dli_sname, "CP_ReaderActivateHandler");
    /* ADIOS2 registers the handler of "ready" first. */
    if (is_ready && (!adios2.core || adios2.core == core.dli_fbase)
        && is_checked((const void *)pass_on, (const void *)handler) && find_functions((const void *)handler)) {
        adios2.core = core.dli_fbase;
        adios2.on_ready = handler;
        handler = on_ready;
    } else if (is_register && adios2.core && adios2.core == core.dli_fbase) {
        adios2.on_register = handler;
        handler = on_register;
    }
    pass_on(format, handler, data);
}

/* The writer asks to be notified of the end of a connection. */
EXPORTED void CMconn_register_close_handler(Connection connection, CloseHandler handler, void *data)
{
    RegisterCloseHandler pass_on
        = (RegisterCloseHandler)real("CMconn_register_close_handler", (const void *)handler);
    struct Joining *found = NULL;
    Dl_info core = {0};
    if (adios2.core && dladdr((const void *)handler, &core) && core.dli_fbase == adios2.core && core.dli_sname
        && !strcmp(core.dli_sname, "WriterConnCloseHandler")) {
        pthread_mutex_lock(&lock);
        for (struct Joining *joining = joinings; joining; joining = joining->next)
            if (joining->connection == connection && (!joining->reader || joining->reader == data)
                && !(found && found->reader))
                found = joining; /* the one of this reader, else the oldest without a reader */
        bool is_dead = false;
        if (found) {
            found->on_close = handler;
            found->reader = data;
            is_dead = ++found->times_asked == 2 && found->is_dead;
        }
        pthread_mutex_unlock(&lock);
        if (is_dead)
            let_in(found, false);
    }
    if (!found && pass_on)
        pass_on(connection, handler, data);
}
