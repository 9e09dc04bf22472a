// Functions that clang prepares (-fxray-instrument), of each kind of ending; prints what has one right answer. Arguments:
// threads, rounds.
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <thread>
#include <vector>

#define FUNCTION extern "C" __attribute__((noinline))

static thread_local volatile double kept;

FUNCTION double mixed(double a, double b, long c, double d, long e) { return a + 2 * b + 3 * c + 4 * d + 5 * e; }
FUNCTION long counted(int count, ...)
{
    va_list list;
    long sum = 0;
    va_start(list, count);
    for (int number = 0; number < count; number++)
        sum += static_cast<long>(va_arg(list, double));
    va_end(list);
    return sum;
}
FUNCTION long last(long value) { return value * 3 + 1; }
FUNCTION long jumping(long value) { return last(value + 1); }
FUNCTION void thrown(long value)
{
    if (value % 4 == 0)
        throw std::runtime_error("fourth");
    kept = kept + 1;
}
FUNCTION long caught(long value)
{
    try {
        thrown(value);
    } catch (const std::runtime_error &) {
        return 1;
    }
    return 0;
}
FUNCTION long fib(long n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
FUNCTION long work(long round)
{
    double value = mixed(1, 2, round, 4, 5);
    return static_cast<long>(value) + counted(3, 1.0, 2.0, value) + jumping(round) + caught(round) + fib(8);
}

int main(int count, char **words)
{
    int threads = count > 1 ? atoi(words[1]) : 1, rounds = count > 2 ? atoi(words[2]) : 100;
    std::vector<long> sums(threads, 0);
    std::vector<std::thread> all;
    for (int number = 0; number < threads; number++)
        all.emplace_back([&sums, number, rounds] {
            for (long round = 0; round < rounds; round++)
                sums[number] = (sums[number] * 31 + work(round)) % 1000003;
        });
    for (auto &each : all)
        each.join();
    for (long sum : sums)
        std::printf("%ld\n", sum);
    return 0;
}
