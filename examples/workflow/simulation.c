/* Heat in a rod, by an explicit scheme that is stable up to a diffusion number of 1/2.
 *
 *     simulation NAME NUMBER STEPS     writes NAME.csv, the rod at each tenth step
 */
#include "chimbuko.h"
#include "chimbuko_namespaces.h"

#include <math.h>

#define CELLS 20000
#define SHOWN 64
#define EVERY 10

static chimbuko_namespace application = CHIMBUKO_NAMESPACE("application");
static double rod[CELLS], next[CELLS];

static void heat(void)
{
    int cell;
    /* Steep at one place, so that an unstable step is seen early. */
    for (cell = 0; cell < CELLS; cell++)
        rod[cell] = sin(6.28318530717958648 * cell / SHOWN) + (cell % 97 == 0 ? 0.5 : 0.0);
}

static void advance(double number)
{
    int cell;
    for (cell = 0; cell < CELLS; cell++) {
        double left = rod[(cell + CELLS - 1) % CELLS], right = rod[(cell + 1) % CELLS];
        next[cell] = rod[cell] + number * (left - 2.0 * rod[cell] + right);
    }
    memcpy(rod, next, sizeof rod);
}

static void publish(const char *name, int step, double number)
{
    char key[256];
    double largest = 0.0;
    int cell;
    for (cell = 0; cell < CELLS; cell++)
        largest = fmax(largest, fabs(rod[cell]));
    snprintf(key, sizeof key, "%s/step", name);
    chimbuko_update_integer(&application, key, step);
    snprintf(key, sizeof key, "%s/number", name);
    chimbuko_update(&application, key, number);
    snprintf(key, sizeof key, "%s/largest", name);
    chimbuko_update(&application, key, largest);
    chimbuko_commit(&application);
}

static void write_rod(FILE *file)
{
    int cell;
    for (cell = 0; cell < SHOWN; cell++)
        fprintf(file, "%.9g%c", rod[cell], cell + 1 < SHOWN ? ',' : '\n');
}

int main(int count, char **words)
{
    char path[256];
    FILE *file;
    double number;
    int step, steps;
    if (count != 4) {
        fprintf(stderr, "usage: simulation NAME NUMBER STEPS\n");
        return 2;
    }
    number = atof(words[2]);
    steps = atoi(words[3]);
    snprintf(path, sizeof path, "%s.csv", words[1]);
    file = fopen(path, "w");
    if (file == NULL) {
        perror(path);
        return 1;
    }
    chimbuko_set_publish_frequency(&application, 10);
    heat();
    for (step = 0; step < steps; step++) {
        write_rod(file);
        advance(number);
        publish(words[1], step, number);
    }
    chimbuko_publish(&application);
    return fclose(file) != 0;
}
