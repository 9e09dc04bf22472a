/* Heat spreading over a plate, on MPI ranks: a small parallel program to watch.
 *
 * The plate is cut into strips, one rank each. In every iteration a rank exchanges its edge rows with
 * its neighbours, relaxes its strip block by block, and rests. Every tenth iteration all ranks add up how
 * much has changed. On request calls are delayed at random places, the same for the same seed. Each delay
 * goes, as it happens, to the file truth-RANK.txt: rank, iteration, function, start and end in
 * microseconds since the epoch, and milliseconds (read by examples/truth.py).
 *
 *     mpicc -O2 -g -finstrument-functions examples/heat_mpi.c -o heat_mpi
 *     mpirun -n 4 chimbuko trace ./heat_mpi --seconds 20 --delays 15 --truth .
 *     mpirun -n 4 tau_exec -T mpi,pthread -adios2_trace ./heat_mpi --seconds 20 --delays 15 --truth .
 *
 * Files and lines of functions come from the debug information: -g. */

#define _GNU_SOURCE
#include <getopt.h>
#include <mpi.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define UNTRACED __attribute__((no_instrument_function))

enum {
    COLUMNS = 1024,
    ROWS = 96, /* of each rank */
    BLOCKS = 4,
    RESIDUAL_EVERY = 10,
    ITERATIONS_PER_SECOND = 100,
    REST_US = 8000,
    LOOK_EVERY_US = 200,
    FIRST_DELAY = 150, /* iterations before it, in which an observer learns what is usual */
    LAST_CALLS = 30,   /* iterations without a delay at the end */
    SHORTEST_MS = 20,
    LONGEST_MS = 200,
    TAG_UP = 10,
    TAG_DOWN = 11,
};
static const double DIFFUSION = 0.2;

struct options {
    double seconds;
    long delays;
    uint64_t seed;
    const char *truth_folder;
};

/* Time lost in the first call of a function in an iteration of a rank. */
struct delay {
    long iteration;
    int rank;
    const char *function;
    int milliseconds;
    int is_busy; /* computing; otherwise asleep */
};

static int rank, ranks;
static int is_crowded; /* more ranks than cores */
static long iteration;
static double *field, *next;
static struct delay *delays;
static long delay_count, next_delay;
static FILE *truth;

static UNTRACED int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static UNTRACED void sleep_us(long microseconds)
{
    struct timespec pause = {microseconds / 1000000, microseconds % 1000000 * 1000};
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, &pause) != 0)
        ;
}

/* Spend the delay planned for this call, if there is one, in the calling function's own time. */
static UNTRACED void lose_time(const char *function)
{
    if (next_delay == delay_count)
        return;
    const struct delay *planned = &delays[next_delay];
    if (planned->iteration != iteration || strcmp(planned->function, function) != 0)
        return;
    next_delay++;
    int64_t start_ns = now_ns(), end_ns = start_ns + planned->milliseconds * INT64_C(1000000);
    if (planned->is_busy)
        while (now_ns() < end_ns)
            ;
    else
        sleep_us(planned->milliseconds * 1000L);
    if (truth != NULL) {
        fprintf(truth, "%d %ld %s %lld %lld %d\n", rank, iteration, function, (long long)(start_ns / 1000),
                (long long)(now_ns() / 1000), planned->milliseconds);
        fflush(truth);
    }
}

/* splitmix64: the same numbers on every rank and machine. */
static UNTRACED uint64_t random_below(uint64_t *state, uint64_t limit)
{
    uint64_t mixed = (*state += UINT64_C(0x9e3779b97f4a7c15));
    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (mixed ^ (mixed >> 31)) % limit;
}

/* All ranks draw all delays, and keep their own: one in each of as many equal parts of the run. */
static UNTRACED void plan_delays(const struct options *options, long iterations)
{
    static const char *const functions[] = {"relax_block", "apply_boundary", "exchange_halo", "iterate"};
    uint64_t state = options->seed;
    double part = (double)(iterations - FIRST_DELAY - LAST_CALLS) / (double)options->delays;
    delays = calloc((size_t)options->delays, sizeof *delays);
    for (long number = 0; number < options->delays; number++) {
        struct delay drawn;
        /* Not in the last half of its part: whoever had to wait for it shall have caught up by the next. */
        double place = (double)number + (double)random_below(&state, 500) / 1000.0;
        drawn.iteration = FIRST_DELAY + (long)(part * place);
        drawn.rank = (int)random_below(&state, (uint64_t)ranks);
        drawn.function = functions[random_below(&state, sizeof functions / sizeof *functions)];
        drawn.milliseconds = SHORTEST_MS + (int)random_below(&state, LONGEST_MS - SHORTEST_MS + 1);
        drawn.is_busy = (int)random_below(&state, 2);
        if (drawn.rank == rank)
            delays[delay_count++] = drawn;
    }
}

/* MPI polls while it waits: with more ranks than cores it would take the core from whom it waits for.
 * PMPI, so that not each look is recorded. */
void await_messages(MPI_Request *requests, int count)
{
    for (int number = 0; number < count; number++) {
        int is_there = 0;
        while (PMPI_Request_get_status(requests[number], &is_there, MPI_STATUS_IGNORE), !is_there)
            sleep_us(LOOK_EVERY_US);
    }
}

void exchange_halo(void)
{
    lose_time("exchange_halo");
    int up = rank > 0 ? rank - 1 : MPI_PROC_NULL, down = rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL;
    MPI_Request requests[4];
    MPI_Status statuses[4];
    MPI_Irecv(field, COLUMNS, MPI_DOUBLE, up, TAG_DOWN, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(field + (ROWS + 1) * COLUMNS, COLUMNS, MPI_DOUBLE, down, TAG_UP, MPI_COMM_WORLD, &requests[1]);
    MPI_Isend(field + COLUMNS, COLUMNS, MPI_DOUBLE, up, TAG_UP, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(field + ROWS * COLUMNS, COLUMNS, MPI_DOUBLE, down, TAG_DOWN, MPI_COMM_WORLD, &requests[3]);
    if (is_crowded)
        await_messages(requests, 4);
    MPI_Waitall(4, requests, statuses);
}

void relax_block(int block)
{
    lose_time("relax_block");
    for (int row = 1 + block * ROWS / BLOCKS; row < 1 + (block + 1) * ROWS / BLOCKS; row++) {
        const double *above = field + (row - 1) * COLUMNS, *here = above + COLUMNS, *below = here + COLUMNS;
        double *target = next + row * COLUMNS;
        for (int column = 1; column < COLUMNS - 1; column++) {
            double around = above[column] + below[column] + here[column - 1] + here[column + 1];
            target[column] = here[column] + DIFFUSION * (around - 4 * here[column]);
        }
    }
}

void relax(void)
{
    for (int block = 0; block < BLOCKS; block++)
        relax_block(block);
}

/* The plate is hot along its upper edge and cold along the others. */
void apply_boundary(void)
{
    lose_time("apply_boundary");
    for (int row = 0; row < ROWS + 2; row++)
        next[row * COLUMNS] = next[row * COLUMNS + COLUMNS - 1] = 0.0;
    for (int column = 0; column < COLUMNS; column++) {
        if (rank == 0)
            next[column] = 1.0;
        if (rank == ranks - 1)
            next[(ROWS + 1) * COLUMNS + column] = 0.0;
    }
}

double residual(void)
{
    double change = 0.0, total = 0.0;
    for (int cell = COLUMNS; cell < (ROWS + 1) * COLUMNS; cell++)
        change += (field[cell] - next[cell]) * (field[cell] - next[cell]);
    MPI_Allreduce(&change, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return total;
}

void rest(void)
{
    sleep_us(REST_US);
}

void iterate(void)
{
    lose_time("iterate");
    exchange_halo();
    relax();
    apply_boundary();
    double *relaxed = next;
    next = field;
    field = relaxed;
    rest();
}

static UNTRACED int ranks_exceed_cores(void)
{
    MPI_Comm node;
    cpu_set_t cores;
    int ranks_here;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &ranks_here);
    MPI_Comm_free(&node);
    return sched_getaffinity(0, sizeof cores, &cores) == 0 && ranks_here > CPU_COUNT(&cores);
}

static UNTRACED void open_truth(const char *folder)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/truth-%d.txt", folder, rank);
    truth = fopen(path, "w");
    if (truth == NULL) {
        perror(path);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
}

static UNTRACED struct options parse(int count, char **words)
{
    static const struct option known[] = {{"seconds", required_argument, NULL, 's'},
                                          {"delays", required_argument, NULL, 'd'},
                                          {"seed", required_argument, NULL, 'r'},
                                          {"truth", required_argument, NULL, 't'},
                                          {NULL, 0, NULL, 0}};
    struct options options = {20.0, 0, 1, NULL};
    int letter, is_wrong = 0;
    while ((letter = getopt_long(count, words, "", known, NULL)) != -1) {
        if (letter == 's')
            options.seconds = atof(optarg);
        else if (letter == 'd')
            options.delays = atol(optarg);
        else if (letter == 'r')
            options.seed = strtoull(optarg, NULL, 10);
        else if (letter == 't')
            options.truth_folder = optarg;
        else
            is_wrong = 1;
    }
    double free_for_delays = options.seconds * ITERATIONS_PER_SECOND - FIRST_DELAY - LAST_CALLS;
    if (is_wrong || optind < count || options.seconds <= 0.0 || options.delays < 0 ||
        (options.delays > 0 && free_for_delays < 2.0 * (double)options.delays)) {
        if (rank == 0)
            fprintf(stderr, "usage: heat_mpi [--seconds S] [--delays N] [--seed N] [--truth FOLDER]\n"
                            "  delays need %d iterations without one, and two each; a second has %d\n",
                    FIRST_DELAY + LAST_CALLS, ITERATIONS_PER_SECOND);
        MPI_Finalize();
        exit(2);
    }
    return options;
}

int main(int count, char **words)
{
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    struct options options = parse(count, words);
    is_crowded = ranks_exceed_cores();
    long iterations = (long)(options.seconds * ITERATIONS_PER_SECOND);
    if (options.delays > 0)
        plan_delays(&options, iterations);
    if (options.truth_folder != NULL)
        open_truth(options.truth_folder);
    field = calloc((size_t)(ROWS + 2) * COLUMNS, sizeof *field);
    next = calloc((size_t)(ROWS + 2) * COLUMNS, sizeof *next);
    double last = 0.0;
    for (iteration = 0; iteration < iterations; iteration++) {
        iterate();
        if (iteration % RESIDUAL_EVERY == 0)
            last = residual();
    }
    if (rank == 0)
        printf("heat_mpi: %d ranks, %ld iterations, residual %.12e\n", ranks, iterations, last);
    free(field);
    free(next);
    free(delays);
    if (truth != NULL)
        fclose(truth);
    MPI_Finalize();
    return 0;
}
