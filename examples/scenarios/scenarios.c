/* MPI programs in which time is lost by one known cause each: five delays of 80 ms, or of what the cause takes, in the
   second half of a run; with imbalance in each step.

   mpicc -g -O1 -finstrument-functions scenarios.c -o scenarios
   chimbuko run -- mpirun -n 4 chimbuko trace ./scenarios late_sender
   chimbuko incidents

   Usage: scenarios NAME; on four ranks. Work is sleep, so that ranks that share cores do not disturb each other.
   ROUNDS=12 in the environment does all of it twelve times. */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ITERATIONS = 600, EACH = 60, DOUBLES = 100, MANY_DOUBLES = 32 << 20, TAG = 7 };

static const double DELAY_MS = 80.0, LONGEST_MS = 200.0, LONG_MS = 180.0;
static double data[DOUBLES];
static double *much;
static int rank, ranks, is_delayed, iteration;

__attribute__((no_instrument_function)) static void pass(double ms) {
  struct timespec left = {(time_t)(ms / 1e3), (long)(ms * 1e6) % 1000000000L};
  nanosleep(&left, NULL);
}

__attribute__((no_instrument_function)) static void work(int late_rank) {
  pass(is_delayed && rank == late_rank ? DELAY_MS : 1.0);
}

__attribute__((no_instrument_function)) static void receive_from(int other) {
  MPI_Recv(data, DOUBLES, MPI_DOUBLE, other, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

void relax(void) { work(1); }
void prepare(void) { work(0); }
void produce(void) { pass(1.0); }
void consume(void) { work(1); }
void assemble(void) { work(2); }
void read_input(void) { work(0); }
void forces(void) { pass(1.0); }
void sweep(void) { pass(0.5); }

void integrate(void) {
  for (int left = rank == 2 ? 2 : 1; left > 0; left--) pass(6.0);
}

void newton(void) {
  pass(is_delayed && rank == 1 ? DELAY_MS : 0.2);
  forces();
}

void solve(void) {
  for (int left = is_delayed && rank == 1 ? 150 : 5; left > 0; left--) sweep();
}

/* Calls of all lengths, each the same on all ranks: a long one is nothing unusual, and nobody waits for it, unless the
   others have a short one meanwhile. */
void refine(void) {
  double share = iteration * 40503u % 65536u / 65536.0;
  double ms = 1.0 + LONGEST_MS * share * share * share * share * share * share;
  if (is_delayed) ms = rank == 1 ? LONG_MS : 1.0;
  pass(ms);
}

static void ordinary_call(void) {
  double sum;
  refine();
  MPI_Allreduce(data, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void own_code(void) { relax(); }

static void late_child(void) { newton(); }

static void more_calls(void) { solve(); }

static void late_sender(void) {
  if (rank == 0) {
    prepare();
    MPI_Send(data, DOUBLES, MPI_DOUBLE, 1, TAG, MPI_COMM_WORLD);
  } else if (rank == 1) {
    receive_from(0);
  }
}

static void late_receiver(void) {
  if (rank == 0) {
    produce();
    MPI_Ssend(data, DOUBLES, MPI_DOUBLE, 1, TAG, MPI_COMM_WORLD);
  } else if (rank == 1) {
    consume();
    receive_from(0);
  }
}

static void chain(void) {
  if (rank == 0) prepare();
  if (rank > 0) receive_from(rank - 1);
  if (rank + 1 < ranks) MPI_Send(data, DOUBLES, MPI_DOUBLE, rank + 1, TAG, MPI_COMM_WORLD);
}

static void late_root(void) {
  if (rank == 0) read_input();
  MPI_Bcast(data, DOUBLES, MPI_DOUBLE, 0, MPI_COMM_WORLD);
}

static void late_at_collective(void) {
  double sum;
  assemble();
  MPI_Allreduce(data, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

/* One rank does twice the work, always. */
static void imbalance(void) {
  double sum;
  integrate();
  MPI_Allreduce(data, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

/* 256 MB instead of 800 bytes: how long that takes is the machine's affair. */
static void more_bytes(void) {
  int count = is_delayed ? MANY_DOUBLES : DOUBLES;
  if (rank > 1) return;
  if (much == NULL) much = calloc(MANY_DOUBLES, sizeof *much);
  produce();
  if (rank == 0) MPI_Send(much, count, MPI_DOUBLE, 1, TAG, MPI_COMM_WORLD);
  if (rank == 1) MPI_Recv(much, count, MPI_DOUBLE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static const struct {
  const char *name;
  void (*step)(void);
} SCENARIOS[] = {
    {"own_code", own_code},       {"late_child", late_child},       {"more_calls", more_calls},
    {"late_sender", late_sender}, {"late_receiver", late_receiver}, {"chain", chain},
    {"late_root", late_root},     {"late_at_collective", late_at_collective},
    {"more_bytes", more_bytes},   {"imbalance", imbalance},         {"ordinary_call", ordinary_call},
};

__attribute__((no_instrument_function)) static int rounds(void) {
  const char *wanted = getenv("ROUNDS");
  return wanted == NULL ? 1 : atoi(wanted);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  int is_known = 0;
  for (unsigned at = 0; argc == 2 && at < sizeof SCENARIOS / sizeof *SCENARIOS; at++) {
    if (strcmp(argv[1], SCENARIOS[at].name) != 0) continue;
    is_known = 1;
    for (iteration = 1; iteration <= ITERATIONS * rounds(); iteration++) {
      is_delayed = (iteration - 1) % ITERATIONS >= ITERATIONS / 2 && iteration % EACH == 0;
      SCENARIOS[at].step();
    }
  }
  if (!is_known && rank == 0) fprintf(stderr, "usage: scenarios NAME, on four ranks; see its source for the names\n");
  MPI_Finalize();
  return is_known ? 0 : 2;
}
