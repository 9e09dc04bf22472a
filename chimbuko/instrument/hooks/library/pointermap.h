/* Map from pointers to numbers, of open addressing. */
#ifndef CHIMBUKO_POINTERMAP_H
#define CHIMBUKO_POINTERMAP_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct slot {
    const void *key; /* NULL for none */
    int64_t value;
};

struct map {
    struct slot *slots;
    size_t capacity; /* a power of two, or 0 */
    size_t used;
};

static inline size_t place_of(const struct map *map, const void *key)
{
    /* Objects lie at multiples of 16. */
    return (((uintptr_t)key >> 4) * UINT64_C(0x9E3779B97F4A7C15) >> 32) & (map->capacity - 1);
}

static inline struct slot *find(const struct map *map, const void *key)
{
    if (map->used == 0)
        return NULL;
    for (size_t place = place_of(map, key);; place = (place + 1) & (map->capacity - 1)) {
        struct slot *slot = &map->slots[place];
        if (slot->key == key)
            return slot;
        if (slot->key == NULL)
            return NULL;
    }
}

static inline void put_anew(struct map *map, struct slot added)
{
    size_t place = place_of(map, added.key);
    while (map->slots[place].key != NULL)
        place = (place + 1) & (map->capacity - 1);
    map->slots[place] = added;
    map->used++;
}

/* Without memory nothing is put, and the answer is 0. */
static inline int put(struct map *map, const void *key, int64_t value)
{
    struct slot *known = find(map, key);
    if (known != NULL) {
        known->value = value;
        return 1;
    }
    if (2 * map->used >= map->capacity) {
        struct map larger = {.capacity = map->capacity == 0 ? 64 : 2 * map->capacity};
        larger.slots = calloc(larger.capacity, sizeof *larger.slots);
        if (larger.slots == NULL)
            return 0;
        for (size_t place = 0; place < map->capacity; place++)
            if (map->slots[place].key != NULL)
                put_anew(&larger, map->slots[place]);
        free(map->slots);
        *map = larger;
    }
    put_anew(map, (struct slot){key, value});
    return 1;
}

static inline void erase(struct map *map, const void *key)
{
    struct slot *found = find(map, key);
    if (found == NULL)
        return;
    size_t mask = map->capacity - 1, hole = (size_t)(found - map->slots);
    /* What follows moves up, unless that would be before its own place. */
    for (size_t place = (hole + 1) & mask; map->slots[place].key != NULL; place = (place + 1) & mask) {
        size_t own = place_of(map, map->slots[place].key);
        if (((place - own) & mask) < ((place - hole) & mask))
            continue;
        map->slots[hole] = map->slots[place];
        hole = place;
    }
    map->slots[hole].key = NULL;
    map->used--;
}

static inline void clear(struct map *map)
{
    free(map->slots);
    memset(map, 0, sizeof *map);
}

#endif
