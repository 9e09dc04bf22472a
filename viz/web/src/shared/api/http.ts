/** Requests to the server's API. Addresses are relative to the page's base, so they survive proxies. */

import { answerOf, isReport, report } from './report';
import type { Query } from './request';

const LONGEST_MS = 30_000;

/** The server said no, in words that can be shown. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

/** Below which path API and events of the run are, where its server has several runs. */
export const mount = document.querySelector('base')?.dataset['mount'] ?? '';

export function addressOfApi(path: string, query: Query): URL {
  const url = new URL(`${mount}api/v1/${path}`, document.baseURI);
  for (const [name, value] of query) url.searchParams.append(name, value);
  return url;
}

/** Ask for an object. */
export async function get<T>(path: string, query: Query, signal: AbortSignal): Promise<T> {
  if (isReport) return reported<T>(path, query);
  const answer = await fetch(addressOfApi(path, query), { signal: AbortSignal.any([signal, AbortSignal.timeout(LONGEST_MS)]) });
  const body = (await answer.json()) as { ok: boolean; error?: string };
  if (!answer.ok || !body.ok) throw new Refused(answer.status, body.error ?? answer.statusText);
  return body as T;
}

/** The report's own status for what it has no room for: no server gives it. */
const NOT_REPORTED = 410;

async function reported<T>(path: string, query: Query): Promise<T> {
  const answer = await answerOf(path, query);
  if (answer === undefined) throw new Refused(NOT_REPORTED, `Not in this report. All of the run: chimbuko view ${report.value?.directory ?? ''}`);
  return answer as T;
}
