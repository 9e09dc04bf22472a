/* Counts how often each thread takes locks of the C library, where chimbuko monitor --locks preloads it.
 *
 * Each thread adds to a slot of its own in a file that all processes of a program map; the monitor reads it. Nothing
 * here waits, allocates or writes elsewhere: a lock costs one more jump and one more addition. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))
#define FAST __thread __attribute__((tls_model("initial-exec")))

/* As locks.py reads it. Slots do not share lines of a cache. */
struct slot {
    int32_t pid, tid;
    uint64_t locks, trylocks, failed;
    char unused[32];
};
struct file {
    _Atomic uint64_t used;
    char unused[56];
    struct slot slots[];
};

static struct file *file;
static uint64_t capacity;
static FAST struct slot *own;
/* For locks before there is a file, and where there is none or no more room in it. */
static FAST struct slot spare;

static void claim(void)
{
    uint64_t number = file == NULL ? 0 : __atomic_fetch_add(&file->used, 1, __ATOMIC_RELAXED);
    own = &spare;
    if (file == NULL || number >= capacity)
        return;
    struct slot *given = &file->slots[number];
    given->pid = (int32_t)getpid();
    given->locks = spare.locks;
    given->trylocks = spare.trylocks;
    given->failed = spare.failed;
    /* Last: with it the slot is complete. */
    __atomic_store_n(&given->tid, (int32_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
    own = given;
}

static _Bool is_begun;

static inline struct slot *counts(void)
{
    if (__builtin_expect(own == NULL, 0)) {
        /* Other libraries may begin before this one. */
        if (!is_begun)
            return &spare;
        claim();
    }
    return own;
}

/* A copy of a process counts for itself, from its first thread on. */
static void begin_child(void)
{
    spare = (struct slot){0};
    claim();
}

static void open_file(void)
{
    const char *path = getenv("CHIMBUKO_LOCKS_FILE");
    struct stat found;
    int opened = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
    if (opened < 0)
        return;
    if (fstat(opened, &found) == 0 && found.st_size > (off_t)sizeof(struct file)) {
        void *mapped = mmap(NULL, (size_t)found.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, opened, 0);
        if (mapped != MAP_FAILED) {
            file = mapped;
            capacity = ((uint64_t)found.st_size - sizeof(struct file)) / sizeof(struct slot);
        }
    }
    close(opened);
}

/* The function that the program would have called. Looked up at once, as far as it is there; what begins before this
 * library asks for itself. */
#define REAL(name, parameters)                                                                                         \
    static int(*real_##name) parameters;                                                                               \
    __attribute__((constructor(101))) static void find_##name(void)                                                    \
    {                                                                                                                  \
        if (real_##name == NULL)                                                                                       \
            real_##name = (int(*) parameters)dlsym(RTLD_NEXT, #name);                                                  \
    }

#define LOCK(name, parameters, arguments)                                                                              \
    REAL(name, parameters)                                                                                             \
    EXPORTED int name parameters                                                                                       \
    {                                                                                                                  \
        counts()->locks++;                                                                                             \
        if (__builtin_expect(real_##name == NULL, 0))                                                                  \
            find_##name();                                                                                             \
        return real_##name arguments;                                                                                  \
    }

#define TRYLOCK(name, parameters, arguments)                                                                           \
    REAL(name, parameters)                                                                                             \
    EXPORTED int name parameters                                                                                       \
    {                                                                                                                  \
        if (__builtin_expect(real_##name == NULL, 0))                                                                  \
            find_##name();                                                                                             \
        int result = real_##name arguments;                                                                            \
        struct slot *slot = counts();                                                                                  \
        slot->trylocks++;                                                                                              \
        slot->failed += result == EBUSY;                                                                               \
        return result;                                                                                                 \
    }

LOCK(pthread_mutex_lock, (pthread_mutex_t * lock), (lock))
LOCK(pthread_mutex_timedlock, (pthread_mutex_t * lock, const struct timespec *until), (lock, until))
LOCK(pthread_mutex_clocklock, (pthread_mutex_t * lock, clockid_t clock, const struct timespec *until),
     (lock, clock, until))
LOCK(pthread_rwlock_rdlock, (pthread_rwlock_t * lock), (lock))
LOCK(pthread_rwlock_wrlock, (pthread_rwlock_t * lock), (lock))
LOCK(pthread_spin_lock, (pthread_spinlock_t * lock), (lock))
TRYLOCK(pthread_mutex_trylock, (pthread_mutex_t * lock), (lock))
TRYLOCK(pthread_rwlock_tryrdlock, (pthread_rwlock_t * lock), (lock))
TRYLOCK(pthread_rwlock_trywrlock, (pthread_rwlock_t * lock), (lock))
TRYLOCK(pthread_spin_trylock, (pthread_spinlock_t * lock), (lock))

__attribute__((constructor)) static void begin(void)
{
    int before = errno;
    open_file();
    pthread_atfork(NULL, NULL, begin_child);
    is_begun = 1;
    /* So that it is known of each process that its locks are counted, also if it takes none. */
    claim();
    errno = before;
}
