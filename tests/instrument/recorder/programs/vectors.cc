// Vectors as arguments and results of a thread's first recorded call, for which the recorder prepares what it needs, and
// of a long one, after which it counts the thread's work. Prints the right sums; ends with 77 where the processor has
// no such vectors. Argument: 256 or 512.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <immintrin.h>
#include <thread>

#define FUNCTION extern "C" __attribute__((noinline))
#ifdef __clang__
#define UNSEEN __attribute__((noinline, xray_never_instrument))
#else
#define UNSEEN __attribute__((noinline, patchable_function_entry(0, 0)))
#endif

#define VECTORS(bits, kind, features, one, lanes)                                                                      \
    FUNCTION __attribute__((target(features))) kind mixed##bits(kind a, kind b, kind c, kind d, kind e, kind f,        \
                                                                kind g, kind h)                                        \
    {                                                                                                                  \
        return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h;                                              \
    }                                                                                                                  \
    FUNCTION __attribute__((target(features))) kind late##bits(kind value)                                             \
    {                                                                                                                  \
        auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(3);                                  \
        while (std::chrono::steady_clock::now() < until)                                                               \
            ;                                                                                                          \
        return value * 2;                                                                                              \
    }                                                                                                                  \
    UNSEEN __attribute__((target(features))) void use##bits(double *sum)                                               \
    {                                                                                                                  \
        kind a, b = one(1.5);                                                                                          \
        for (int lane = 0; lane < lanes; lane++)                                                                       \
            a[lane] = lane + 1;                                                                                        \
        for (int time = 0; time < 3; time++) {                                                                         \
            kind found = late##bits(mixed##bits(a, b, a, b, a, b, a, b));                                              \
            for (int lane = 0; lane < lanes; lane++)                                                                   \
                *sum += (lane + 1) * found[lane];                                                                      \
        }                                                                                                              \
    }

VECTORS(256, __m256d, "avx", _mm256_set1_pd, 4)
VECTORS(512, __m512d, "avx512f", _mm512_set1_pd, 8)

UNSEEN int main(int, char **words)
{
    bool is_wide = atoi(words[1]) == 512;
    if (!(is_wide ? __builtin_cpu_supports("avx512f") : __builtin_cpu_supports("avx")))
        return 77;
    for (int time = 0; time < 4; time++) {
        double sum = 0;
        std::thread thread(is_wide ? use512 : use256, &sum);
        thread.join();
        std::printf("%.1f\n", sum);
    }
    return 0;
}
