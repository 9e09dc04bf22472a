/** What the server, or a report, can be asked. */

/** The arguments, in order; a name may stand there several times. */
export type Query = readonly (readonly [name: string, value: string])[];
/** What can be asked for: a path below the API's root, and its arguments. */
export type Request = readonly [path: string, query: Query];
