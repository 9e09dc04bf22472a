/* Counters of a thread's work in its trace. They are read once a millisecond at most, and recorded only where the
 * thread has had no event for so long: what lies between is of one call's own code. */
#include "recorder.h"

#include <string.h>

static __thread __attribute__((tls_model("initial-exec"))) struct work_reader own;
static __thread __attribute__((tls_model("initial-exec"))) struct work last_work;
static unsigned known[WORK_COUNTS];

static void write_counter(unsigned number, uint64_t value, int64_t now)
{
    /* Room is kept for the event that comes next, and for the EXIT of each open call. */
    if (value == 0 || known[number] == 0 || !has_room(self.depth + 4))
        return;
    struct event *event = next_event(COUNTER, now);
    event->value = (double)value;
    event->tag = (int32_t)(known[number] - 1);
    publish();
}

static int64_t last_event_ns(void)
{
    return self.written == 0 ? 0 : self.events[(self.written - 1) & self.mask].time_ns;
}

/* Note what was done since the last reading, if this thread has had no event for long. It is called where the thread
 * records an event, before that is written. */
void count_work(int64_t now)
{
    int64_t last_event = self.written == 0 ? now : last_event_ns();
    struct work current, last = last_work;
    read_work(&own, &current);
    last_work = current;
    /* Of the first reading nobody knows what came before it. */
    bool is_known = self.counted_ns != 0;
    self.counted_ns = now;
    if (!is_known || now - last_event < READ_NS || self.depth == 0)
        return;
    for (unsigned number = 0; number < WORK_COUNTS && known[number] == 0; number++)
        known[number] = number_of_name(work_names[number]);
    if (self.is_lane_unsaid && has_room(self.depth + 4)) {
        write_call(LANE, 0, now, 0);
        self.is_lane_unsaid = false;
    }
    for (unsigned number = 0; number < WORK_COUNTS; number++)
        write_counter(number, work_between(&last, &current, number), now);
}

/* Python's recorder asks, whose calls are not of one's own code if they hold others that are recorded here. */
__attribute__((visibility("default"))) int64_t chimbuko_recorder_last_ns(void) { return last_event_ns(); }

void end_counting(void)
{
    end_work(&own);
    memset(&last_work, 0, sizeof last_work);
}
