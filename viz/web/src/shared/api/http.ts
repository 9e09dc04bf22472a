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

/**
 * Key by which this page shows a server that was started again that it was let in before. It is in memory alone, and
 * never sent: whoever listens on the port of a server that has ended gets nothing that another server takes.
 */
let key: CryptoKey | null = null;

/** Get the key, where the browser can use it: over HTTPS, or from this computer. */
export async function keepKey(): Promise<void> {
  if (isReport || typeof crypto.subtle === 'undefined') return;
  try {
    const answer = await fetch(addressOfApi('page-key', []));
    if (!answer.ok) return;
    const text = new TextEncoder().encode(((await answer.json()) as { key: string }).key);
    key = await crypto.subtle.importKey('raw', text, { name: 'HMAC', hash: 'SHA-256' }, false, ['sign']);
  } catch {
    // The server has gone, or another one is there: the page says so by other requests.
  }
}

/** Request an address; where the server is another one than before, answer its challenge, which brings a new cookie. */
export async function ask(
  address: URL,
  signal: AbortSignal,
  sent: { method?: string; headers?: Record<string, string>; body?: string } = {},
): Promise<Response> {
  const answer = await fetch(address, { signal, ...sent });
  const challenge = answer.status === 401 ? answer.headers.get('X-Chimbuko-Challenge') : null;
  if (challenge === null || key === null) return answer;
  const signed = await crypto.subtle.sign('HMAC', key, new TextEncoder().encode(`${challenge} ${address.host}`));
  const shown = Array.from(new Uint8Array(signed), (byte) => byte.toString(16).padStart(2, '0')).join('');
  return fetch(address, { signal, ...sent, headers: { ...sent.headers, Authorization: `chimbuko ${challenge} ${shown}` } });
}

/** Request an object. */
export async function get<T>(path: string, query: Query, signal: AbortSignal): Promise<T> {
  if (isReport) return reported<T>(path, query);
  const answer = await ask(addressOfApi(path, query), AbortSignal.any([signal, AbortSignal.timeout(LONGEST_MS)]));
  const body = (await answer.json()) as { ok: boolean; error?: string };
  if (!answer.ok || !body.ok) throw new Refused(answer.status, body.error ?? answer.statusText);
  return body as T;
}

/** Write something; nothing is sent from a report, which has no server. */
export async function post<T>(path: string, body: object): Promise<T> {
  const sent = { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) };
  const answer = await ask(addressOfApi(path, []), AbortSignal.timeout(LONGEST_MS), sent);
  const said = (await answer.json()) as { ok: boolean; error?: string };
  if (!answer.ok || !said.ok) throw new Refused(answer.status, said.error ?? answer.statusText);
  return said as T;
}

/** Status of requests that a report has no answer to; no server uses it. */
const NOT_REPORTED = 410;

async function reported<T>(path: string, query: Query): Promise<T> {
  const answer = await answerOf(path, query);
  if (answer === undefined) throw new Refused(NOT_REPORTED, `This is not in the report. The whole run: chimbuko view ${report.value?.directory ?? ''}`);
  return answer as T;
}
