/* What the library and those who read what it has written share: three kinds of mapped files.
 * chimbuko/instrument/recorder/layout.py has the same structures; all numbers have the machine's own byte order.
 *
 * A process has one file, and each of its threads a ring. The library writes, and the drain reads; a ring's `read`
 * and a process's `stored` and `drained_ns` alone are written by the drain. Where messages are only counted there are no
 * rings, and the counts are in a file of their own. */
#ifndef CHIMBUKO_LAYOUT_H
#define CHIMBUKO_LAYOUT_H

#include <stdatomic.h>
#include <stdint.h>

#define PROCESS_MAGIC "CHIMPROC"
#define RING_MAGIC "CHIMRING"
#define COUNTS_MAGIC "CHIMMSGS"

enum {
    LAYOUT_VERSION = 10,
    NAMES = 2048,
    NAME_BYTES = 256,
    COMMUNICATORS = 4096,
    OPENMP_COMMUNICATOR = COMMUNICATORS - 1, /* of the barriers of all teams of threads */
    FUNCTIONS = 1 << 12, /* that are told apart; row 0 is for all others */
    MAPS_BYTES = 1 << 16,
    PATH_BYTES = 1024,
    OBSTACLE_BYTES = 128,
    BACKTRACE = 64,
    FIRST_QUEUE = 1 << 30, /* stands for the id of a thread in the ring of a queue of a GPU */
    DEPTH = 1024,         /* of the calls that are recorded */
    RING_EVENTS = 1 << 16 /* a power of two */
};

/* A key identifies a function: its address, or the number of a name with the highest bit set; see below for OpenMP. */
typedef uint64_t Key;
#define NAMED (UINT64_C(1) << 63)

/* The key of a construct of OpenMP: its kind, and the place in the code behind the call of the runtime. */
#define OPENMP (UINT64_C(1) << 62)
#define CONSTRUCT_SHIFT 56
#define PLACE_MASK ((UINT64_C(1) << CONSTRUCT_SHIFT) - 1)
enum Construct {
    PARALLEL = 1,
    LOOP,
    SECTIONS,
    SINGLE,
    WORKSHARE,
    BARRIER,
    CRITICAL,
    LOCK,
    ORDERED,
    TASK,
    TASKWAIT,
    TARGET
};
#define IS_FUNCTION(key) ((key) >> 62 == 0)

enum Kind { ENTRY = 1, EXIT, SEND, RECEIVE, COUNTER, OPERATION, LANE };

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
    int32_t tag;      /* of a collective its number on the communicator; of a COUNTER its name; else see below */
    uint32_t request; /* 0 for none */
};

/* A thread may have several stacks, as of coroutines. The tag of an ENTRY, an EXIT and a LANE is the number of the
 * lane in which the calls of the present stack are recorded; other events belong to that of the event before. The
 * request of an EXIT is LEFT_EARLIER where the call was given up with its stack: it ended with the event of its lane
 * that came before. The key of a LANE is the id of a thread that takes over the ring of one that has ended, or 0. */
enum { LEFT_EARLIER = 1 };

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

/* How a process ended, or was about to: it may go on for a moment, and call other functions. */
enum End { CALLED_ABORT = 1, ENDED_IN_MPI };
struct ending {
    _Atomic uint32_t how; /* 0 for nothing special; written last */
    int32_t code;         /* of MPI_Abort */
    int32_t thread;
    uint32_t depth;
    Key stack[BACKTRACE]; /* the innermost of the open calls, the outermost first */
};

/* What is known of a function that is recorded or left out. */
struct function_row {
    Key key;              /* 0 in a free row, and in that for all others */
    int64_t out_ns;       /* time at which it was left out first; 0 where it never was */
    int64_t uncounted_ns; /* time at which its calls were disarmed first; 0 where all are counted */
    int64_t counted_ns;   /* time at which they were armed again last; 0 while they are not */
    uint64_t samples;     /* number of times that they were armed and disarmed between these */
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
    uint32_t deciders; /* processes of this node that decide together what is recorded; 0 where nothing had to be */
    uint32_t is_prepared; /* the compiler has prepared functions, which cost nothing where they are left out */
    uint32_t reserved;
    _Atomic uint64_t threads_without_ring;
    _Atomic uint64_t lost_requests; /* for which there was no room in the table of requests */
    _Atomic uint64_t unseen_tasks;         /* of OpenMP, which its runtime hides */
    _Atomic uint64_t calls_without_caller; /* of MPI, whose stack was not searched, as that costs too much */
    uint64_t stored; /* events, of all rings, that are in the stream */
    _Atomic int64_t drained_ns; /* CPU time that it took to empty the rings, and to write the stream, until now */
    double overhead; /* part of the program's time that recording may cost */
    char executable[PATH_BYTES];
    char maps[MAPS_BYTES]; /* the executable mappings as in /proc/PID/maps, cut at a line's end */
    struct crash crash;
    struct ending ending;
    char obstacle[OBSTACLE_BYTES]; /* to changes of the program's code, in words; empty for none */
    char gpu[OBSTACLE_BYTES];      /* why nothing is recorded of its GPUs, in words; empty for no reason */
    struct function_row functions[FUNCTIONS];
    struct communicator communicators[COMMUNICATORS];
    struct name names[NAMES];
};

/* Runtimes of the calls of a function that one thread has recorded. */
struct runtimes {
    uint64_t calls;
    double squares_us2; /* sum of their squares */
};

struct ring {
    char magic[8];
    uint32_t version;
    uint32_t capacity; /* in events */
    uint32_t header_bytes;
    int32_t thread;
    uint32_t tid;
    uint32_t description; /* one more than the number of a name, in the ring of a queue of a GPU; else 0 */
    _Alignas(64) _Atomic uint64_t written; /* events, since the beginning */
    _Atomic uint64_t dropped_calls;        /* calls for which the ring had no room, and all that they called */
    _Atomic uint64_t dropped_rows;         /* messages and counters */
    _Atomic uint64_t too_deep;             /* calls beyond DEPTH, and all that they called */
    _Atomic uint32_t depth;
    uint32_t lanes;                        /* stacks beside the thread's own */
    _Atomic uint64_t strayed_calls;        /* calls that ended on another thread, or in another order */
    _Atomic uint64_t interrupting_calls;   /* of handlers of signals that came while an event was written */
    _Atomic uint64_t stackless_calls;      /* on stacks for which there was no lane */
    _Alignas(64) _Atomic uint64_t read;
    /* Number of calls not recorded, by row of the process's table: as it was decided, and as it was not possible. */
    _Alignas(64) uint64_t left_out[FUNCTIONS];
    uint64_t dropped[FUNCTIONS];
    Key stack[DEPTH];        /* open calls, the outermost first */
    int64_t entry_ns[DEPTH]; /* time at which each of them began */
    struct runtimes runtimes[FUNCTIONS];
    uint64_t frame[DEPTH];   /* stack addresses of the open calls; the highest one where it says nothing */
    uint64_t site[DEPTH];    /* where each was called, packed */
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
