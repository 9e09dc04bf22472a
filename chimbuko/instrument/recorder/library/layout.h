/* What the library and those who read what it has written share: three kinds of mapped files.
 * chimbuko/instrument/recorder/layout.py has the same structures; all numbers have the machine's own byte order.
 *
 * A process has one file, and each of its threads a ring. The library writes, and the drain reads; a ring's `read`
 * and a process's `stored` alone are written by the drain. Where messages are only counted there are no rings, and
 * the counts are in a file of their own. */
#ifndef CHIMBUKO_LAYOUT_H
#define CHIMBUKO_LAYOUT_H

#include <stdatomic.h>
#include <stdint.h>

#define PROCESS_MAGIC "CHIMPROC"
#define RING_MAGIC "CHIMRING"
#define COUNTS_MAGIC "CHIMMSGS"

enum {
    LAYOUT_VERSION = 5,
    NAMES = 2048,
    NAME_BYTES = 256,
    COMMUNICATORS = 4096,
    LEFT_OUT = 1024, /* a power of two */
    MAPS_BYTES = 1 << 16,
    PATH_BYTES = 1024,
    LEAF_FUNCTIONS = 1024, /* a power of two */
    BACKTRACE = 64,
    DEPTH = 1024,         /* of the calls that are recorded */
    RING_EVENTS = 1 << 16 /* a power of two */
};

/* A key identifies a function: its address, or the number of a name with the highest bit set. */
typedef uint64_t Key;
#define NAMED (UINT64_C(1) << 63)

enum Kind { ENTRY = 1, EXIT, SEND, RECEIVE, COUNTER, OPERATION };

/* Kinds of an OPERATION. */
enum Operation { COLLECTIVE = 1, RECEIVE_POSTED, COMPLETED, ONE_SIDED, SYNCHRONISATION };

/* An event of any kind has 32 bytes. */
struct event {
    int64_t time_ns; /* of the monotonic clock */
    uint8_t kind;
    uint8_t operation;
    uint16_t communicator; /* row in the process's table */
    int32_t peer;          /* world rank; of a collective its root, or -1 */
    union {
        Key key;           /* ENTRY, EXIT */
        int64_t bytes;     /* SEND, RECEIVE, OPERATION */
        double value;      /* COUNTER */
    };
    int32_t tag;      /* of a collective its number on the communicator; of a COUNTER its name */
    uint32_t request; /* 0 for none */
};

struct communicator {
    uint64_t identity; /* the same for all its members */
    uint32_t size;
    int32_t rank;
};

struct name {
    char text[NAME_BYTES]; /* ends with a zero */
};

/* Where a process was when a signal ended it. */
struct crash {
    _Atomic int32_t signal; /* 0 for none; written last */
    int32_t thread;
    uint64_t address;
    uint32_t frames;
    uint32_t reserved;
    uint64_t backtrace[BACKTRACE];
};

struct process {
    char magic[8];
    uint32_t version;
    uint32_t bytes; /* of this structure */
    uint32_t pid;
    uint32_t parent;
    int32_t world_rank; /* -1 without MPI */
    int32_t world_size;
    int64_t clock_offset_ns; /* from the monotonic clock to the epoch's */
    int64_t start_ns;
    _Atomic int64_t end_ns; /* 0 until the process ends in order */
    uint32_t is_forked;
    uint32_t is_finalized;
    _Atomic uint32_t thread_count;
    _Atomic uint32_t name_count;
    _Atomic uint32_t communicator_count;
    _Atomic uint32_t left_out_count;
    _Atomic uint64_t threads_without_ring;
    _Atomic uint64_t lost_requests; /* for which there was no room in the table of requests */
    uint64_t stored; /* events, of all rings, that are in the stream */
    char executable[PATH_BYTES];
    char maps[MAPS_BYTES]; /* the executable mappings as in /proc/PID/maps, cut at a line's end */
    struct crash crash;
    _Atomic Key left_out[LEFT_OUT]; /* hash table of functions left out */
    struct communicator communicators[COMMUNICATORS];
    struct name names[NAMES];
};

/* Calls in one thread of a function that calls no recorded function. */
struct leaf_calls {
    Key key;
    uint64_t calls;
    int64_t since_ns;
    int64_t total_ns; /* duration of these calls */
};

struct ring {
    char magic[8];
    uint32_t version;
    uint32_t capacity; /* in events */
    uint32_t header_bytes;
    int32_t thread;
    uint32_t tid;
    uint32_t reserved;
    _Alignas(64) _Atomic uint64_t written; /* events, since the beginning */
    _Atomic uint64_t dropped_calls;        /* calls for which the ring had no room, with all that they called */
    _Atomic uint64_t dropped_rows;         /* messages and counters */
    _Atomic uint64_t too_deep;             /* calls beyond DEPTH */
    _Atomic uint32_t depth;
    _Alignas(64) _Atomic uint64_t read;
    _Alignas(64) uint64_t left_out[LEFT_OUT]; /* number of calls not recorded, by row of the process's table */
    Key stack[DEPTH];        /* open calls, the outermost first */
    int64_t entry_ns[DEPTH]; /* time at which each of them began */
    struct leaf_calls leaf_calls[LEAF_FUNCTIONS];
    uint64_t frame[DEPTH];   /* stack addresses of the open calls; the highest one where it says nothing */
    uint64_t site[DEPTH];    /* where each was called */
    Key dropped[DEPTH];      /* a function that each called, and for which there was no room; 0 for none */
};

/* Count of the messages to one rank, and from it. */
struct traffic {
    _Atomic uint64_t sent_count, sent_bytes, received_count, received_bytes;
};

/* All messages of a process, where they are only counted. */
struct counts {
    char magic[8];
    uint32_t version;
    int32_t world_rank;
    uint32_t world_size;
    uint32_t reserved;
    _Atomic uint64_t left_out; /* messages with processes that are not ranks of this world */
    char executable[PATH_BYTES];
    struct traffic partners[]; /* by world rank */
};

#endif
