/** Requests to the server or to a report. */

/** Parameters in order; a name may occur several times. */
export type Query = readonly (readonly [name: string, value: string])[];
/** A path below the API's root, and its parameters. */
export type Request = readonly [path: string, query: Query];
