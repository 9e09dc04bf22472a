/** Long questions over the event socket: a worker answers them, and reports its progress. */

import type { Socket } from 'socket.io-client';
import { addressOfApi, ask } from './http';

/** Progress of a long question. */
export interface Progress {
  /** Share that is done, from 0 to 1. */
  readonly share: number;
  readonly text: string;
}

/** A long question: the name of a task of the server, and its parameters. */
export interface LongQuestion {
  readonly question: string;
  readonly parameters: object;
}

/** An answer that is a file to be saved. */
export interface AnswerFile {
  readonly name: string;
  readonly bytes: number;
  /** Address below the API's root, valid for a minute. */
  readonly address: string;
}

/** Ask a question and hear of its progress until there is an answer; aborting the signal cancels the work. */
export type Ask = <T>(asked: LongQuestion, signal: AbortSignal, onProgress: (progress: Progress) => void) => Promise<T>;

interface Waiting {
  put: () => void;
  onProgress: (progress: Progress) => void;
  onAnswer: (text: string | null, job: string) => void;
  onFailure: (sentence: string) => void;
}

/** Ask long questions over a socket. After a reconnection they are sent again with the same ids, and go on. */
export function askingOver(socket: Socket): Ask {
  const waiting = new Map<string, Waiting>();
  socket.on('connect', () => waiting.forEach((one) => one.put()));
  socket.on('progress', ({ id, ...progress }: Progress & { id: string }) => waiting.get(id)?.onProgress(progress));
  socket.on('answer', ({ id, answer, job }: { id: string; answer: string | null; job: string }) => waiting.get(id)?.onAnswer(answer, job));
  socket.on('failure', ({ id, sentence }: { id: string; sentence: string }) => waiting.get(id)?.onFailure(sentence));
  return <T>(asked: LongQuestion, signal: AbortSignal, onProgress: (progress: Progress) => void): Promise<T> => {
    const id = newId();
    const put = (): void => {
      // A message that is sent while disconnected would be sent twice after the reconnection.
      if (socket.connected) socket.emit('ask', { id, ...asked });
    };
    return new Promise((resolve, reject) => {
      const over = (): boolean => {
        signal.removeEventListener('abort', cancel);
        return waiting.delete(id);
      };
      const cancel = (): void => {
        over();
        if (socket.connected) socket.emit('cancel', { id });
        reject(signal.reason as Error);
      };
      signal.addEventListener('abort', cancel);
      waiting.set(id, {
        put,
        onProgress,
        onAnswer: (text, job) => over() && resolve(text === null ? fetched(job, signal) : (JSON.parse(text) as T)),
        onFailure: (sentence) => over() && reject(new Error(sentence)),
      });
      put();
    });
  };
}

/** Fetch an answer that is too large for an event. */
async function fetched<T>(job: string, signal: AbortSignal): Promise<T> {
  const answer = await ask(addressOfApi(`answers/${job}`, []), signal);
  const body = (await answer.json()) as T & { error?: string };
  if (!answer.ok) throw new Error(body.error ?? answer.statusText);
  return body;
}

/** New id that nobody else can guess. */
function newId(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}
