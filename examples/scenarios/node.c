/* MPI programs that their node delays, by one known cause each: five delays of 200 ms in the second half of a run.
   Beside them are some that delay themselves (computes, sleeps, polls, child, condition), and one without delays
   (clean).

   mpicc -g -O1 -finstrument-functions -pthread node.c -o node
   chimbuko run -- mpirun -n 2 chimbuko trace ./node stopped
   chimbuko incidents

   Usage: node NAME [FOLDER [GROUP]]; on two ranks. memory_limit is delayed in a control group, the folder GROUP, that
   may hold less than 96 MiB. Rank 1 is delayed in kernel(), and rank 0 waits for it in MPI_Allreduce.
   Between two steps all sleep, so that ranks that share a core do not disturb each other. What is work takes 200 ms
   of CPU time, also where others use the machine. ROUNDS=12 in the environment does all of it twelve times. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define QUIET __attribute__((no_instrument_function))

enum { ITERATIONS = 400, EACH = 40, MIB = 1 << 20, RIVALS = 4 };

static const double DELAY_MS = 200.0, USUAL_MS = 4.0;
static int rank;
static const char *folder = "/tmp";
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int is_holding;

QUIET static double now_ms(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

QUIET static void pass(double ms) {
  struct timespec left = {(time_t)(ms / 1e3), (long)(ms * 1e6) % 1000000000L};
  nanosleep(&left, NULL);
}

/* To ask for this clock is a system call, so it is asked seldom. */
QUIET static void compute(double ms) {
  double until = now_ms(CLOCK_THREAD_CPUTIME_ID) + ms;
  while (now_ms(CLOCK_THREAD_CPUTIME_ID) < until)
    for (volatile int some = 0; some < 50000; some++) {
    }
}

QUIET static void pin(int core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  sched_setaffinity(0, sizeof cores, &cores);
}

QUIET static int last_core(void) {
  static int core = -1;
  cpu_set_t cores;
  if (core < 0 && sched_getaffinity(0, sizeof cores, &cores) == 0)
    for (int one = 0; one < CPU_SETSIZE; one++)
      if (CPU_ISSET(one, &cores)) core = one;
  return core;
}

/* Several threads of one process take the last core for some time: who computes there meanwhile has a fifth of it. */
QUIET static void *spin(void *ms) {
  double until = now_ms(CLOCK_MONOTONIC) + *(double *)ms;
  pin(last_core());
  while (now_ms(CLOCK_MONOTONIC) < until) {
  }
  return NULL;
}

QUIET static void take_last_core(double ms) {
  pthread_t others[RIVALS - 1];
  cpu_set_t before;
  sched_getaffinity(0, sizeof before, &before);
  for (int one = 0; one < RIVALS - 1; one++) pthread_create(&others[one], NULL, spin, &ms);
  spin(&ms);
  for (int one = 0; one < RIVALS - 1; one++) pthread_join(others[one], NULL);
  sched_setaffinity(0, sizeof before, &before);
}

QUIET static void compute_on_last_core(double ms) {
  cpu_set_t before;
  sched_getaffinity(0, sizeof before, &before);
  pin(last_core());
  compute(ms);
  sched_setaffinity(0, sizeof before, &before);
}

/* Runs beside the ranks, as somebody else's process would: it has another name, and is there from the beginning.
   It takes the last core for as long as it is told to, in ms. */
static volatile int *asked_ms;

QUIET static void start_spinner(void) {
  asked_ms = mmap(NULL, sizeof *asked_ms, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (fork() != 0) return;
  prctl(PR_SET_NAME, "spinner");
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  while (*asked_ms >= 0) {
    double ms = *asked_ms;
    *asked_ms = 0;
    if (ms > 0) take_last_core(ms);
    pass(1.0);
  }
  _exit(0);
}

QUIET static void stolen(void) {
  *asked_ms = (int)DELAY_MS;
  pass(2.0);
  compute_on_last_core(DELAY_MS / (RIVALS + 1));
}

QUIET static void stopped(void) {
  pid_t self = getpid(), child = fork();
  if (child == 0) {
    kill(self, SIGSTOP);
    pass(DELAY_MS);
    kill(self, SIGCONT);
    _exit(0);
  }
  waitpid(child, NULL, 0);
}

QUIET static void page_faults(void) {
  double until = now_ms(CLOCK_THREAD_CPUTIME_ID) + DELAY_MS;
  while (now_ms(CLOCK_THREAD_CPUTIME_ID) < until) {
    char *some = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(some, 4 * MIB, MADV_NOHUGEPAGE);
    for (int at = 0; at < 4 * MIB; at += 4096) some[at] = 1;
    munmap(some, 4 * MIB);
  }
}

QUIET static void *hold(void *unused) {
  prctl(PR_SET_NAME, "holder");
  pthread_mutex_lock(&lock);
  __atomic_store_n(&is_holding, 1, __ATOMIC_RELEASE);
  compute(DELAY_MS);
  pthread_mutex_unlock(&lock);
  return unused;
}

QUIET static void held_lock(void) {
  pthread_t holder;
  is_holding = 0;
  pthread_create(&holder, NULL, hold, NULL);
  while (!__atomic_load_n(&is_holding, __ATOMIC_ACQUIRE)) pass(0.1);
  pthread_mutex_lock(&lock);
  pthread_mutex_unlock(&lock);
  pthread_join(holder, NULL);
}

/* Much at a time goes to the disk itself: the thread sleeps until all of it is there. */
QUIET static void slow_disk(void) {
  char path[4096], *some = aligned_alloc(4096, 16 * MIB);
  snprintf(path, sizeof path, "%s/node-scenario-%d", folder, getpid());
  int file = open(path, O_CREAT | O_WRONLY | O_TRUNC | O_DIRECT | O_DSYNC, 0600);
  double until = now_ms(CLOCK_MONOTONIC) + DELAY_MS;
  memset(some, rank, 16 * MIB);
  while (now_ms(CLOCK_MONOTONIC) < until && pwrite(file, some, 16 * MIB, 0) > 0) {
  }
  close(file);
  unlink(path);
  free(some);
}

QUIET static void system_calls(void) {
  double until = now_ms(CLOCK_THREAD_CPUTIME_ID) + DELAY_MS;
  char some[4096];
  int zero = open("/dev/zero", O_RDONLY);
  while (now_ms(CLOCK_THREAD_CPUTIME_ID) < until)
    for (int one = 0; one < 1000; one++)
      if (pread(zero, some, sizeof some, 0) < 0) return;
  close(zero);
}

QUIET static void computes(void) {
  compute(DELAY_MS);
}

QUIET static void sleeps(void) {
  pass(DELAY_MS);
}

QUIET static void polls(void) {
  poll(NULL, 0, (int)DELAY_MS);
}

QUIET static void child(void) {
  pid_t started = fork();
  if (started == 0) {
    execlp("sleep", "sleep", "0.2", (char *)NULL);
    _exit(1);
  }
  waitpid(started, NULL, 0);
}

static pthread_cond_t signalled = PTHREAD_COND_INITIALIZER;
static int is_signalled;

QUIET static void *signal_later(void *unused) {
  pass(DELAY_MS);
  pthread_mutex_lock(&lock);
  is_signalled = 1;
  pthread_cond_signal(&signalled);
  pthread_mutex_unlock(&lock);
  return unused;
}

QUIET static void condition(void) {
  pthread_t other;
  is_signalled = 0;
  pthread_create(&other, NULL, signal_later, NULL);
  pthread_mutex_lock(&lock);
  while (!is_signalled) pthread_cond_wait(&signalled, &lock);
  pthread_mutex_unlock(&lock);
  pthread_join(other, NULL);
}

QUIET static void clean(void) {
}

QUIET static void migrations(void) {
  cpu_set_t before;
  sched_getaffinity(0, sizeof before, &before);
  double until = now_ms(CLOCK_MONOTONIC) + DELAY_MS;
  for (int core = 0; now_ms(CLOCK_MONOTONIC) < until; core = (core + 1) % CPU_SETSIZE)
    if (CPU_ISSET(core, &before)) pin(core);
  sched_setaffinity(0, sizeof before, &before);
}

/* Rank 1 alone is limited; what it has had before counts elsewhere. */
QUIET static void join(const char *group) {
  char path[4096];
  snprintf(path, sizeof path, "%s/cgroup.procs", group);
  FILE *members = fopen(path, "w");
  if (members == NULL || fprintf(members, "%d\n", getpid()) < 0 || fclose(members) != 0) perror(path);
}

/* More of a file than the control group may hold is read again and again, page by page in no order. */
static const size_t FILE_SIZE = 96u * MIB, PAGE = 4096;
static int file_of_limit = -1;

QUIET static void write_file_of_limit(void) {
  char path[4096], *some = malloc(MIB);
  snprintf(path, sizeof path, "%s/node-scenario-%d", folder, getpid());
  file_of_limit = open(path, O_CREAT | O_RDWR | O_TRUNC, 0600);
  unlink(path);
  memset(some, 1, MIB);
  for (size_t at = 0; at < FILE_SIZE; at += MIB)
    if (pwrite(file_of_limit, some, MIB, (off_t)at) < 0) perror(path);
  fsync(file_of_limit);
  free(some);
}

QUIET static void memory_limit(void) {
  char *mapped = mmap(NULL, FILE_SIZE, PROT_READ, MAP_SHARED, file_of_limit, 0);
  if (mapped == MAP_FAILED) return;
  madvise(mapped, FILE_SIZE, MADV_RANDOM);
  volatile char sum = 0;
  double until = now_ms(CLOCK_MONOTONIC) + DELAY_MS;
  for (size_t at = 0; now_ms(CLOCK_MONOTONIC) < until; at = (at + 257 * PAGE) % FILE_SIZE) sum += mapped[at];
  munmap(mapped, FILE_SIZE);
}

static const struct {
  const char *name;
  void (*delay)(void);
} SCENARIOS[] = {
    {"stolen", stolen},         {"stopped", stopped},           {"page_faults", page_faults},
    {"held_lock", held_lock},   {"slow_disk", slow_disk},       {"system_calls", system_calls},
    {"migrations", migrations}, {"memory_limit", memory_limit}, {"shared_core", NULL},
    {"computes", computes},     {"sleeps", sleeps},             {"polls", polls},
    {"child", child},           {"condition", condition},       {"clean", clean},
};

/* Where the kernel divides cores among sessions (autogroup), and a launcher has put each rank into one of its own, all
   threads of the other rank together would have no more than half of the core. With this nice value they have the four
   fifths that they have elsewhere. */
enum { OF_A_FIFTH = 6 };

QUIET static void weigh_session(int nice) {
  FILE *session = fopen("/proc/self/autogroup", "w");
  if (session == NULL) return;
  fprintf(session, "%d", nice);
  fclose(session);
}

/* Threads of the other rank compute on this one's core meanwhile. */
QUIET static void share_a_core(void) {
  if (rank == 0) {
    take_last_core(DELAY_MS);
    return;
  }
  weigh_session(OF_A_FIFTH);
  compute_on_last_core(DELAY_MS / (RIVALS + 1));
  weigh_session(0);
}

static int is_delayed, scenario;

QUIET static int rounds(void) {
  const char *wanted = getenv("ROUNDS");
  return wanted == NULL ? 1 : atoi(wanted);
}

void kernel(void) {
  compute(USUAL_MS);
  if (!is_delayed) return;
  if (SCENARIOS[scenario].delay == NULL)
    share_a_core();
  else if (rank == 1)
    SCENARIOS[scenario].delay();
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  int count = sizeof SCENARIOS / sizeof *SCENARIOS;
  for (scenario = 0; scenario < count && (argc < 2 || strcmp(argv[1], SCENARIOS[scenario].name)); scenario++) {
  }
  if (argc > 2) folder = argv[2];
  if (rank == 1 && argc > 3) join(argv[3]);
  if (rank == 1 && scenario < count && SCENARIOS[scenario].delay == memory_limit) write_file_of_limit();
  if (rank == 1 && scenario == 0) start_spinner();
  for (int step = 1; scenario < count && step <= ITERATIONS * rounds(); step++) {
    double own = rank, sum;
    is_delayed = (step - 1) % ITERATIONS >= ITERATIONS / 2 && step % EACH == 0;
    kernel();
    pass(4.0);
    MPI_Allreduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  }
  if (scenario == count && rank == 0) fprintf(stderr, "usage: node NAME [FOLDER]; see its source for the names\n");
  if (asked_ms != NULL) *asked_ms = -1;
  MPI_Finalize();
  return scenario == count ? 2 : 0;
}
