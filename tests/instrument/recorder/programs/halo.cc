// A ring of ranks in C++: a class, a template, and an exception that leaves a function early.
#include <mpi.h>

#include <stdexcept>
#include <vector>

namespace plate
{
class Strip
{
  public:
    Strip(int rank, int ranks) : rank_(rank), ranks_(ranks), mine_(50, rank), theirs_(50) {}

    __attribute__((noinline)) void exchange()
    {
        MPI_Sendrecv(mine_.data(), 50, MPI_DOUBLE, (rank_ + 1) % ranks_, 5, theirs_.data(), 50, MPI_DOUBLE,
                     (rank_ + ranks_ - 1) % ranks_, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }

    template <typename Number> __attribute__((noinline)) void check(Number limit)
    {
        MPI_Barrier(MPI_COMM_WORLD);
        if (theirs_[0] >= limit)
            throw std::runtime_error("beyond the limit");
    }

  private:
    int rank_, ranks_;
    std::vector<double> mine_, theirs_;
};
} // namespace plate

int main(int count, char **words)
{
    int rank, ranks, failures = 0;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    plate::Strip strip(rank, ranks);
    for (int round = 0; round < 20; round++) {
        strip.exchange();
        try {
            strip.check(1.0);
        } catch (const std::exception &) {
            failures++;
        }
    }
    MPI_Finalize();
    return failures == (rank == 0 ? 20 : 0) ? 0 : 1;
}
