// A ring of ranks in C++ that lose time as a plan says: MILLISECONDS of RANK in ITERATION of FUNCTION, a line each.
// What was lost goes to truth-RANK.txt, as of examples/heat_mpi.c. Arguments: iterations, plan, folder of the truth.
#include <mpi.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#define UNTRACED __attribute__((no_instrument_function))

namespace
{
const int cells = 20000, rest_us = 8000, look_us = 200;
int rank, ranks, iteration;
std::string plan, folder;
} // namespace

UNTRACED long long now_us()
{
    timeval now;
    gettimeofday(&now, nullptr);
    return now.tv_sec * 1000000LL + now.tv_usec;
}

UNTRACED void lose_time(const char *function)
{
    std::ifstream planned(plan);
    int of_rank, in_iteration, milliseconds;
    std::string name;
    while (planned >> milliseconds >> of_rank >> in_iteration >> name) {
        if (of_rank != rank || in_iteration != iteration || name != function)
            continue;
        long long start = now_us();
        while (now_us() < start + milliseconds * 1000LL)
            usleep(100);
        std::ofstream truth(folder + "/truth-" + std::to_string(rank) + ".txt", std::ios::app);
        truth << rank << ' ' << iteration << ' ' << function << ' ' << start << ' ' << now_us() << ' ' << milliseconds
              << std::endl;
    }
}

/* MPI polls, and there may be more ranks than cores; PMPI, so that not each look is recorded. */
void await(MPI_Request request)
{
    for (int is_there = 0; PMPI_Request_get_status(request, &is_there, MPI_STATUS_IGNORE), !is_there;)
        usleep(look_us);
}

class Strip
{
  public:
    Strip() : mine_(cells, rank), theirs_(cells) {}

    __attribute__((noinline)) void exchange()
    {
        lose_time("exchange");
        MPI_Request requests[2];
        MPI_Irecv(theirs_.data(), 100, MPI_DOUBLE, (rank + ranks - 1) % ranks, 5, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(mine_.data(), 100, MPI_DOUBLE, (rank + 1) % ranks, 5, MPI_COMM_WORLD, &requests[1]);
        await(requests[0]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }

    __attribute__((noinline)) void relax()
    {
        lose_time("relax");
        for (double &cell : mine_)
            cell = std::sqrt(cell * cell + theirs_[0]);
    }

  private:
    std::vector<double> mine_, theirs_;
};

int main(int count, char **words)
{
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    plan = words[2];
    folder = words[3];
    Strip strip;
    for (iteration = 0; iteration < std::atoi(words[1]); iteration++) {
        strip.exchange();
        strip.relax();
        usleep(rest_us);
    }
    MPI_Finalize();
}
