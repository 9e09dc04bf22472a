/* One process leads, the one that began first of those that look. It has a file in its folder of rings, which the others
 * find beside theirs: they add what they observe, and the leader decides by budget.c on the mean of all, as each would
 * do for itself. A leader that is silent for a while has ended, or stopped looking: then another one leads. */
#define _GNU_SOURCE
#include "node.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "recorder.h"

#define NODE_MAGIC "CHIMNODE"
#define NODE_FILE "node"
#define MARKS ".rings" /* folder of a run's own folders of rings; elsewhere stand those of other programs, too */

enum { SLOTS = 2 * MOST_FUNCTIONS };
#define SEARCH_NS INT64_C(1000000000)
#define SILENT_NS INT64_C(1500000000) /* a busy node may hold up a look for longer than it takes */

/* What is known of a function, whose address is another one in each process. */
struct slot {
    _Atomic uint64_t identity; /* 0 in a free one */
    _Atomic uint64_t calls, counted_ns, since_ns, recorded, squares_ns2, looks;
    _Atomic uint32_t decision; /* written by the leader, as is the credit */
    _Atomic uint32_t credit;
    _Atomic uint32_t is_poll;
};

struct node {
    char magic[8];
    uint32_t version;
    uint32_t pid, parent;
    _Atomic uint32_t members;
    int64_t start_ns;
    _Atomic int64_t decided_ns; /* time of the leader's last decision */
    _Atomic uint32_t left_out;  /* number of functions */
    _Atomic uint64_t threads, looks;
    char executable[PATH_BYTES];
    struct slot slots[SLOTS];
};

/* What the leader knows of a slot. */
struct sums {
    uint64_t calls, counted_ns, since_ns, recorded, squares_ns2, looks;
};

static struct node *node;
static bool is_leader;
static int64_t searched_ns;
static uint64_t identities[MOST_FUNCTIONS]; /* by row */
static struct estimate estimates[MOST_FUNCTIONS];
static struct observation observations[MOST_FUNCTIONS];
static struct sums sums[MOST_FUNCTIONS];
static uint32_t slots[MOST_FUNCTIONS]; /* by the leader's number of a function */
static uint32_t slot_count;
static uint8_t is_numbered[SLOTS];
static uint64_t threads_before, looks_before;
static struct budget common;

static uint64_t mixed(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

static uint64_t hash_of(const char *text)
{
    uint64_t hash = 1;
    for (; *text != '\0'; text++)
        hash = mixed(hash, (uint8_t)*text);
    return hash;
}

struct place {
    uintptr_t address;
    uint64_t identity;
};

static int note_place(struct dl_phdr_info *module, size_t size, void *data)
{
    struct place *place = data;
    (void)size;
    for (unsigned number = 0; number < module->dlpi_phnum; number++) {
        const ElfW(Phdr) *header = &module->dlpi_phdr[number];
        uintptr_t start = module->dlpi_addr + header->p_vaddr;
        if (header->p_type != PT_LOAD || place->address - start >= header->p_memsz)
            continue;
        place->identity = mixed(hash_of(module->dlpi_name), place->address - module->dlpi_addr);
        return 1;
    }
    return 0;
}

/* The same in all processes; 0 for a function of which that is not known. */
static uint64_t identity_of(Key key)
{
    if (key & NAMED)
        return (key & ~NAMED) < NAMES ? hash_of(process->names[key & ~NAMED].text) | 1 : 0;
    struct place place = {.address = (uintptr_t)(key & OPENMP ? key & PLACE_MASK : key)};
    dl_iterate_phdr(note_place, &place);
    return place.identity == 0 || IS_FUNCTION(key) ? place.identity : mixed(place.identity, key >> CONSTRUCT_SHIFT);
}

/* The slot of a function; NULL where there is none. */
static struct slot *slot_at(uint64_t identity)
{
    if (identity == 0)
        return NULL;
    for (uint32_t number = 0; number < SLOTS; number++) {
        struct slot *slot = &node->slots[(identity + number) % SLOTS];
        uint64_t found = 0;
        if (atomic_load(&slot->identity) == identity ||
            atomic_compare_exchange_strong(&slot->identity, &found, identity) || found == identity)
            return slot;
    }
    return NULL;
}

static struct node *mapped(int file)
{
    struct stat found;
    bool is_whole = fstat(file, &found) == 0 && (size_t)found.st_size == sizeof(struct node);
    void *memory = is_whole ? mmap(NULL, sizeof(struct node), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
    close(file);
    return memory == MAP_FAILED ? NULL : memory;
}

/* The folder in which folders of rings stand; whether all are of the same run. */
static bool folder_around(char *path, size_t bytes)
{
    snprintf(path, bytes, "%s", recorder_folder());
    char *last = strrchr(path, '/');
    if (last == NULL || last == path)
        return false;
    *last = '\0';
    const char *name = strrchr(path, '/');
    return name != NULL && strcmp(name + 1, MARKS) == 0;
}

static bool is_fresh(const struct node *one) { return now_ns() - atomic_load(&one->decided_ns) < SILENT_NS; }

static bool is_of_this_program(const struct node *one, bool is_of_run)
{
    return memcmp(one->magic, NODE_MAGIC, sizeof one->magic) == 0 && one->version == LAYOUT_VERSION &&
           (is_of_run || one->parent == process->parent) &&
           strncmp(one->executable, process->executable, PATH_BYTES) == 0;
}

static bool is_before(const struct node *one, const struct node *other)
{
    return one->start_ns != other->start_ns ? one->start_ns < other->start_ns : one->pid < other->pid;
}

/* Find the file of the leader that began first; NULL for none. */
static struct node *find_leader(void)
{
    char around[PATH_BYTES], path[2 * PATH_BYTES];
    bool is_of_run = folder_around(around, sizeof around);
    struct node *best = NULL;
    DIR *folders = opendir(around);
    for (struct dirent *each; folders != NULL && (each = readdir(folders)) != NULL;) {
        if (strncmp(each->d_name, "chimbuko-rings-", 15) != 0)
            continue;
        snprintf(path, sizeof path, "%s/%s/" NODE_FILE, around, each->d_name);
        int file = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        struct node *found = file < 0 ? NULL : mapped(file);
        if (found == NULL)
            continue;
        bool is_better = is_of_this_program(found, is_of_run) && is_fresh(found) &&
                         (best == NULL || is_before(found, best));
        struct node *worse = is_better ? best : found;
        if (worse != NULL)
            munmap(worse, sizeof *worse);
        best = is_better ? found : best;
    }
    if (folders != NULL)
        closedir(folders);
    return best;
}

static struct node *make_node(void)
{
    char hidden[PATH_BYTES + 64], path[PATH_BYTES + 64];
    snprintf(hidden, sizeof hidden, "%s/." NODE_FILE "-%d", recorder_folder(), (int)getpid());
    snprintf(path, sizeof path, "%s/" NODE_FILE, recorder_folder());
    int file = open(hidden, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0 || posix_fallocate(file, 0, sizeof(struct node)) != 0) {
        if (file >= 0)
            close(file);
        return NULL;
    }
    struct node *made = mapped(file);
    if (made != NULL) {
        made->version = LAYOUT_VERSION;
        made->pid = process->pid;
        made->parent = process->parent;
        made->start_ns = process->start_ns;
        memcpy(made->executable, process->executable, sizeof made->executable);
        atomic_store(&made->decided_ns, now_ns());
        memcpy(made->magic, NODE_MAGIC, sizeof made->magic);
        rename(hidden, path);
    }
    return made;
}

static void leave_node(void)
{
    if (node != NULL)
        munmap(node, sizeof *node);
    node = NULL;
    is_leader = false;
}

static void join(struct node *found, bool is_own)
{
    leave_node();
    node = found;
    is_leader = is_own;
    atomic_fetch_add(&node->members, 1);
    if (!is_own)
        return;
    memset(estimates, 0, sizeof estimates);
    memset(sums, 0, sizeof sums);
    memset(is_numbered, 0, sizeof is_numbered);
    slot_count = 0;
    threads_before = looks_before = 0;
}

/* Join who leads, or lead if nobody does; a leader gives way to one that began before it. */
static void find_node(void)
{
    int64_t now = now_ns();
    bool is_led = node != NULL && !is_leader && is_fresh(node);
    if (is_led || (now - searched_ns < SEARCH_NS && node != NULL))
        return;
    searched_ns = now;
    struct node *found = find_leader();
    bool is_own = found != NULL && found->pid == process->pid && found->start_ns == process->start_ns;
    if (found != NULL && !is_own) {
        join(found, false);
        return;
    }
    if (found != NULL)
        munmap(found, sizeof *found);
    if (!is_leader && (found = make_node()) != NULL)
        join(found, true);
}

static void give(const struct estimate *function, const struct observation *seen, struct slot *slot)
{
    atomic_fetch_add(&slot->calls, seen->calls);
    atomic_fetch_add(&slot->recorded, seen->recorded);
    atomic_fetch_add(&slot->squares_ns2, (uint64_t)(1e6 * seen->squares_us2));
    if (function->is_poll)
        atomic_store(&slot->is_poll, 1);
    if (seen->counted_ns <= 0)
        return;
    atomic_fetch_add(&slot->counted_ns, (uint64_t)seen->counted_ns);
    atomic_fetch_add(&slot->since_ns, (uint64_t)seen->since_ns);
    atomic_fetch_add(&slot->looks, 1);
}

/* Number the functions that are new to the leader. */
static void number_slots(void)
{
    for (uint32_t slot = 0; slot < SLOTS && slot_count < MOST_FUNCTIONS; slot++) {
        if (is_numbered[slot] || atomic_load(&node->slots[slot].identity) == 0)
            continue;
        is_numbered[slot] = 1;
        slots[slot_count++] = slot;
    }
}

static struct observation news(struct sums *before, struct slot *slot)
{
    struct sums now = {
        .calls = atomic_load(&slot->calls),
        .counted_ns = atomic_load(&slot->counted_ns),
        .since_ns = atomic_load(&slot->since_ns),
        .recorded = atomic_load(&slot->recorded),
        .squares_ns2 = atomic_load(&slot->squares_ns2),
        .looks = atomic_load(&slot->looks),
    };
    uint64_t looks = now.looks - before->looks;
    struct observation seen = {
        .calls = now.calls - before->calls,
        .counted_ns = (int64_t)(now.counted_ns - before->counted_ns),
        .since_ns = looks == 0 ? 0 : (int64_t)((now.since_ns - before->since_ns) / looks),
        .recorded = now.recorded - before->recorded,
        .squares_us2 = 1e-6 * (double)(now.squares_ns2 - before->squares_ns2),
    };
    *before = now;
    return seen;
}

static void lead(void)
{
    number_slots();
    for (uint32_t number = 0; number < slot_count; number++) {
        struct slot *slot = &node->slots[slots[number]];
        observations[number] = news(&sums[number], slot);
        estimates[number].is_poll = atomic_load(&slot->is_poll);
    }
    uint64_t threads = atomic_load(&node->threads), looks = atomic_load(&node->looks);
    uint64_t mean = looks == looks_before ? 1 : (threads - threads_before) / (looks - looks_before);
    threads_before = threads;
    looks_before = looks;
    decide(&common, estimates, observations, slot_count, (uint32_t)mean);
    uint32_t left_out = 0;
    for (uint32_t number = 0; number < slot_count; number++) {
        struct slot *slot = &node->slots[slots[number]];
        atomic_store(&slot->credit, estimates[number].credit);
        atomic_store(&slot->decision, estimates[number].decision);
        left_out += estimates[number].decision != KEPT;
    }
    atomic_store(&node->left_out, left_out);
    atomic_store(&node->decided_ns, now_ns());
}

void decide_together(const struct budget *budget, const Key *keys, struct estimate *functions,
                     const struct observation *seen, uint32_t count, uint32_t threads)
{
    find_node();
    if (node == NULL)
        return;
    /* Row 0 is for others, which are not the same in all processes. */
    for (uint32_t row = 1; row < count; row++) {
        if (identities[row] == 0)
            identities[row] = identity_of(keys[row]);
        struct slot *slot = slot_at(identities[row]);
        if (slot != NULL)
            give(&functions[row], &seen[row], slot);
    }
    atomic_fetch_add(&node->threads, threads);
    atomic_fetch_add(&node->looks, 1);
    if (is_leader) {
        common.overhead = budget->overhead;
        lead();
    }
    for (uint32_t row = 1; row < count && is_fresh(node); row++) {
        const struct slot *slot = slot_at(identities[row]);
        uint32_t decision = slot == NULL ? (uint32_t)UNKNOWN_YET : atomic_load(&slot->decision);
        if (decision == UNKNOWN_YET)
            continue;
        functions[row].decision = decision;
        functions[row].credit = atomic_load(&slot->credit);
    }
    process->deciders = atomic_load(&node->members);
}

bool is_called_to_look(void)
{
    struct node *found = node != NULL && is_fresh(node) ? node : find_leader();
    bool is_called = found != NULL && atomic_load(&found->left_out) > 0;
    if (found != NULL && found != node)
        munmap(found, sizeof *found);
    return is_called;
}

void forget_node(void) { leave_node(); }
