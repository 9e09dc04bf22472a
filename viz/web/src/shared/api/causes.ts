/**
 * Causes of lost time, in the order in which calls are asked for them. Written by docs/pagetypes.py.
 *
 * `id` is the value of `kind` in the API, and the name of the cause; `colour` one of the styles `cause-…`
 * in `incident.css`. `isWait`: the call waited for another one. `isHeldUp`: the node kept the thread from
 * running. `text` completes "This much time was lost …". In it `{function}`, `{rank}`, `{by}` and `{count}`
 * are fields of the API's `Part`, and `{meanwhile}` says what the other rank was doing; `{by|someone}` has a
 * text for an empty field, `{count program}` a noun that is counted; what is in brackets is left out where a
 * field in it is empty.
 */
export const CAUSES = [
  {"id": "stopped", "colour": "node", "isWait": false, "isHeldUp": true, "text": "while its process was stopped"},
  {"id": "more bytes", "colour": "ranks", "isWait": false, "isHeldUp": false, "text": "moving more data than usual[, sent by {rank} in {function}]"},
  {"id": "late sender", "colour": "ranks", "isWait": true, "isHeldUp": false, "text": "waiting for a message from {rank}{meanwhile}"},
  {"id": "late receiver", "colour": "ranks", "isWait": true, "isHeldUp": false, "text": "until {rank} took its message{meanwhile}"},
  {"id": "late at collective", "colour": "ranks", "isWait": true, "isHeldUp": false, "text": "waiting for {rank}, the last to enter{meanwhile}"},
  {"id": "late thread", "colour": "program", "isWait": true, "isHeldUp": false, "text": "waiting for {by|another thread}, the last to come[, which was in {function}]"},
  {"id": "waited for core", "colour": "node", "isWait": false, "isHeldUp": true, "text": "kept from running by {by|a process that is not known}"},
  {"id": "waited for GPU", "colour": "node", "isWait": true, "isHeldUp": false, "text": "until {function|its work} had ended on the GPU"},
  {"id": "GPU queue full", "colour": "node", "isWait": true, "isHeldUp": false, "text": "until the GPU could take more work, behind {function}"},
  {"id": "slow operation", "colour": "ranks", "isWait": false, "isHeldUp": false, "text": "in the MPI operation itself, after all ranks had entered it"},
  {"id": "in child", "colour": "program", "isWait": false, "isHeldUp": false, "text": "inside {function}"},
  {"id": "more calls", "colour": "program", "isWait": false, "isHeldUp": false, "text": "in more calls of {function} than usual"},
  {"id": "garbage collection", "colour": "program", "isWait": false, "isHeldUp": false, "text": "collecting garbage ({by})"},
  {"id": "import", "colour": "program", "isWait": false, "isHeldUp": false, "text": "importing {by}"},
  {"id": "waited for event loop", "colour": "program", "isWait": false, "isHeldUp": false, "text": "waiting for the event loop, which {by} kept to itself"},
  {"id": "waited for lock", "colour": "program", "isWait": false, "isHeldUp": false, "text": "waiting for a lock ({by})"},
  {"id": "waited for interpreter", "colour": "program", "isWait": false, "isHeldUp": false, "text": "waiting for the interpreter (GIL), in which {by} ran in another thread"},
  {"id": "page faults", "colour": "node", "isWait": false, "isHeldUp": false, "text": "getting memory from the kernel, in {count page fault}"},
  {"id": "memory pressure", "colour": "node", "isWait": false, "isHeldUp": false, "text": "while the node was short of memory"},
  {"id": "migration", "colour": "node", "isWait": false, "isHeldUp": false, "text": "being moved from core to core"},
  {"id": "storage", "colour": "node", "isWait": false, "isHeldUp": false, "text": "waiting for storage[, for {by}]"},
  {"id": "network", "colour": "node", "isWait": false, "isHeldUp": false, "text": "waiting for a socket or a pipe"},
  {"id": "held lock", "colour": "node", "isWait": false, "isHeldUp": false, "text": "waiting for a lock[ while its thread {by} ran]"},
  {"id": "waited for thread", "colour": "program", "isWait": false, "isHeldUp": false, "text": "waiting for another thread[, in {function}][, while {by} ran]"},
  {"id": "waited for process", "colour": "program", "isWait": false, "isHeldUp": false, "text": "waiting for its child process[ {by}] to end"},
  {"id": "system time", "colour": "node", "isWait": false, "isHeldUp": false, "text": "in the kernel, for its system calls"},
  {"id": "late child", "colour": "program", "isWait": false, "isHeldUp": false, "text": "before it called {function}"},
  {"id": "GPU busy", "colour": "node", "isWait": false, "isHeldUp": false, "text": "as {by} had more to do than usual[, with {count program} of others on it]"},
  {"id": "GPU throttled", "colour": "node", "isWait": false, "isHeldUp": false, "text": "as {by} was slowed down, for heat or by its power supply"},
  {"id": "asleep", "colour": "program", "isWait": false, "isHeldUp": false, "text": "asleep, as it wanted to be[, in {function}][ ({by})]"},
  {"id": "more work", "colour": "program", "isWait": false, "isHeldUp": false, "text": "in more work than usual ({by})"},
  {"id": "slower machine", "colour": "node", "isWait": false, "isHeldUp": false, "text": "as each instruction took longer ({by})"},
  {"id": "low clock", "colour": "node", "isWait": false, "isHeldUp": false, "text": "as the core ran at a lower clock ({by})"},
  {"id": "counter out of range", "colour": "program", "isWait": false, "isHeldUp": false, "text": "while {by} rose by {count} times as much as usual"},
  {"id": "own code", "colour": "program", "isWait": false, "isHeldUp": false, "text": "with no wait on record"},
  {"id": "off its core", "colour": "unexplained", "isWait": false, "isHeldUp": false, "text": "while its thread did not run: it slept, or waited for a core, which no look has seen"},
  {"id": "not explained", "colour": "unexplained", "isWait": true, "isHeldUp": false, "text": "for a reason that is not on record"},
] as const;
