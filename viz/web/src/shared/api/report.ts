/** A report: a page that has its answers with it, and no server. */

import { signal } from '@preact/signals';
import type { Query } from './request';

interface Report {
  /** When it was written, ms since the epoch. */
  made_ms: number;
  /** Where the run was. */
  directory: string;
  /** What of the run is not in it, in words. */
  left_out: string[];
  /** Answers by question. */
  answers: Record<string, unknown>;
}

const element = document.getElementById('report');
export const isReport = element !== null;
/** What the report says of itself, once it is read. */
export const report = signal<Report | null>(null);

/** What a picture's width, or how far back it goes, adds to a question: the answer is there in one form. */
const OF_THE_PICTURE = new Set(['columns', 'after']);

const reading = element === null ? null : read(element.textContent);

/** The answer to a question; undefined where the report does not have it. */
export async function answerOf(path: string, query: Query): Promise<unknown> {
  const answers = (await reading)?.answers ?? {};
  const ranks = query.filter(([name]) => name === 'rank');
  if (path !== 'step-columns' || ranks.length < 2) return answers[keyOf(path, query)];
  // Of each rank by itself.
  const found = ranks.map((rank) => answers[keyOf(path, [rank])] as { series: unknown[] } | undefined);
  return { ok: true, next: null, series: found.flatMap((one) => one?.series ?? []) };
}

function keyOf(path: string, query: Query): string {
  const words = query.filter(([name]) => !OF_THE_PICTURE.has(name)).map((pair) => pair.map(encodeURIComponent).join('='));
  return `${path}?${words.sort().join('&')}`;
}

/** Bytes in base64, packed with gzip. */
async function read(text: string): Promise<Report> {
  const packed = Uint8Array.from(atob(text.trim()), (letter) => letter.charCodeAt(0));
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
  report.value = (await new Response(unpacked).json()) as Report;
  return report.value;
}
