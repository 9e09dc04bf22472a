/** Requests to the server's API. Addresses are relative to the page's base, so they survive proxies. */

import { answerOf, isReport, report } from './report';
import type { Query } from './request';

const LONGEST_MS = 30_000;

/** A refusal of the server, with a message for the user. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

/** Path below which the run's API and events are, where its server has several runs. */
export const mount = document.querySelector('base')?.dataset['mount'] ?? '';

export function addressOfApi(path: string, query: Query): URL {
  const url = new URL(`${mount}api/v1/${path}`, document.baseURI);
  for (const [name, value] of query) url.searchParams.append(name, value);
  return url;
}

/** Request an object. */
export async function get<T>(path: string, query: Query, signal: AbortSignal): Promise<T> {
  if (isReport) return reported<T>(path, query);
  const answer = await fetch(addressOfApi(path, query), { signal: AbortSignal.any([signal, AbortSignal.timeout(LONGEST_MS)]) });
  const body = (await answer.json()) as { ok: boolean; error?: string };
  if (!answer.ok || !body.ok) throw new Refused(answer.status, body.error ?? answer.statusText);
  return body as T;
}

/** Status of requests that a report has no answer to; no server uses it. */
const NOT_REPORTED = 410;

async function reported<T>(path: string, query: Query): Promise<T> {
  const answer = await answerOf(path, query);
  if (answer === undefined) throw new Refused(NOT_REPORTED, `This is not in the report. The whole run: chimbuko view ${report.value?.directory ?? ''}`);
  return answer as T;
}
