/* Part of a recorder that arms and disarms random functions, without a pause, while the program runs. Says at the end how
 * often it did; CHIMBUKO_STORM is the least number. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "entries.h"
#include "looks.h"
#include "recorder.h"

static _Atomic unsigned changes;
static _Atomic bool is_over;

static void *storm(void *unused)
{
    (void)unused;
    unsigned state = 1, count = 0, least = (unsigned)atoi(getenv("CHIMBUKO_STORM"));
    while (!is_over || (changes < least && count > 0)) {
        Key known[64];
        count = 0;
        for (unsigned slot = 0; slot < FUNCTION_SLOTS && count < 64; slot++)
            if (functions[slot].key > 1 && IS_FUNCTION(functions[slot].key))
                known[count++] = functions[slot].key;
        for (unsigned time = 0; time < 64 && count > 0; time++) {
            state = state * 1664525 + 1013904223;
            hold_looks();
            changes += change_entry(known[(state >> 8) % count], state >> 31);
            release_looks();
        }
    }
    return NULL;
}

static pthread_t thread;

__attribute__((constructor)) static void begin_storm(void) { pthread_create(&thread, NULL, storm, NULL); }

__attribute__((destructor)) static void end_storm(void)
{
    is_over = true;
    pthread_join(thread, NULL);
    fprintf(stderr, "%u changes\n", changes);
}
