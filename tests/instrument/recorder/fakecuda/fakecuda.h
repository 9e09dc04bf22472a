/* What the fake CUDA of fakecuda.c can do. */
#include <stdbool.h>
#include <stdint.h>

void fake_begin(void);
void fake_launch(unsigned stream, const char *kernel, int blocks, uint64_t ns);
void fake_copy(unsigned stream, uint64_t ns);
void fake_set(unsigned stream, uint64_t ns);
void fake_synchronize(unsigned stream);
