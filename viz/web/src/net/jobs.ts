/** Long questions over the event socket: a worker answers them, and tells how far it is. */

/** How far a question is. */
export interface Progress {
  /** What is done, 0 to 1. */
  readonly share: number;
  readonly text: string;
}

/** What is asked: the name of a task of the server, and its parameters. */
export interface LongQuestion {
  readonly question: string;
  readonly parameters: object;
}
