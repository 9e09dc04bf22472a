/** A report: a page that contains its answers and needs no server. */

import { signal } from '@preact/signals';
import type { Query } from './request';

interface Report {
  /** Time at which it was written, in ms since the epoch. */
  made_ms: number;
  /** Folder of the run. */
  directory: string;
  /** What it leaves out of the run, in words. */
  left_out: string[];
  /** Answers by request. */
  answers: Record<string, unknown>;
}

const element = document.getElementById('report');
export const isReport = element !== null;
/** The report; null until it is read. */
export const report = signal<Report | null>(null);

/** Parameters that depend on a picture's size or range: a report has its answers in one form. */
const OF_THE_PICTURE = new Set(['columns', 'after', 'step_min', 'step_max']);

const reading = element === null ? null : read(element.textContent);

/** Answer to a request; undefined where the report does not have it. */
export async function answerOf(path: string, query: Query): Promise<unknown> {
  const answers = (await reading)?.answers ?? {};
  const ranks = query.filter(([name]) => name === 'rank');
  if (path !== 'step-columns' || ranks.length < 2) return answers[keyOf(path, query)];
  // The report has the steps of each rank by itself.
  const found = ranks.map((rank) => answers[keyOf(path, [rank])] as { series: unknown[] } | undefined);
  return { ok: true, next: null, series: found.flatMap((one) => one?.series ?? []) };
}

function keyOf(path: string, query: Query): string {
  const words = query.filter(([name]) => !OF_THE_PICTURE.has(name)).map((pair) => pair.map(encodeURIComponent).join('='));
  return `${path}?${words.sort().join('&')}`;
}

/** Read a report from gzip-compressed bytes in base64. */
async function read(text: string): Promise<Report> {
  const packed = Uint8Array.from(atob(text.trim()), (letter) => letter.charCodeAt(0));
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
  report.value = (await new Response(unpacked).json()) as Report;
  return report.value;
}
