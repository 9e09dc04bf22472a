/** Connection to the server: the run, and its state, as last received and as shown (they differ while paused). */

import { batch, computed, signal } from '@preact/signals';
import * as api from '../api/requests';
import { connect, type Events } from '../api/events';
import { Refused } from '../api/http';
import { whyRefused } from './model/status';
import { askAgain, question } from './question';
import type { LiveFrame, LiveSteps, Status } from '../api/types';

/** Least time between two updates of lists, so that users can read them. */
const REFRESH_MS = 2000;

const latest = signal<Status | null>(null);
const pausedAt = signal<Status | null>(null);

/** Time at which the connection was lost, in ms; null while connected. */
export const lostAt = signal<number | null>(null);
/** Why a server that answers refuses the page, such as a new token or a run that is gone; empty where it does not. */
export const refused = signal('');
export const paused = computed(() => pausedAt.value !== null);
/** Whether the view can be paused, which needs a run that has not ended. */
export const canPause = computed(() => latest.value !== null && latest.value.state !== 'ended');
export const status = computed(() => pausedAt.value ?? latest.value);
export const arrivedWhilePaused = computed(() => (pausedAt.value === null || latest.value === null ? 0 : latest.value.anomalies - pausedAt.value.anomalies));
/** Zero of all times that are shown, in µs since the epoch. */
export const zero_us = computed(() => status.value?.zero_us ?? 0);

export const run = question(() => 'run', readRun, { live: true, keep: true });
export const programs = computed(() => Object.keys(run.value.value?.programs ?? {}).length);

/** Receiver of frames and of connections. */
export interface Follower {
  onFrame(frame: LiveFrame): void;
  onSteps?(steps: LiveSteps): void;
  onLinked(): void;
}

const followers: Follower[] = [];
let events: Events | null = null;
let begin: (events: Events) => void;
const begun = new Promise<Events>((resolve) => (begin = resolve));
let heard: number | null = null;

export function follow(follower: Follower): void {
  followers.push(follower);
}

export const watch: Events['watch'] = async (ranks) => events?.watch(ranks);
/** Ask a long question, also before the page is connected. */
export const ask: Events['ask'] = async (...question) => (await begun).ask(...question);
/** Announce that a long question may follow. */
export const prepare = async (): Promise<void> => (await begun).prepare();

/** Begin to follow the run. */
export function start(): void {
  events = connect({ onLink, onFrame, onSteps });
  begin(events);
  setInterval(() => refresh(), REFRESH_MS);
}

async function readRun(signal: AbortSignal): ReturnType<typeof api.getRun> {
  const known = await api.getRun(signal);
  // What is asked first of a run that has ended is all there is.
  if (latest.value === null && known.state !== 'running') heard = known.status.version;
  if (latest.value === null || known.status.version >= latest.value.version) latest.value = known.status;
  return known;
}

/** Ask again if anything has happened since, and then once more, because the store may lag for a moment. */
function refresh(isUrgent = false): void {
  if (paused.value || lostAt.value !== null || latest.value === null || heard === latest.value.version) return;
  const news = latest.value.version;
  if (askAgain(isUrgent)) heard = asked === news ? news : null;
  asked = news;
}

let asked: number | null = null;

function onLink(connected: boolean): void {
  if (!connected) {
    lostAt.value ??= Date.now();
    void seeWhy();
    return;
  }
  refused.value = '';
  const wasLost = lostAt.value !== null;
  lostAt.value = null;
  if (wasLost && !paused.value) askAgain(true);
  for (const follower of followers) follower.onLinked();
}

/** Find out why the connection was lost: a server that refuses the page tells why. */
async function seeWhy(): Promise<void> {
  try {
    await api.getRun(new AbortController().signal);
  } catch (error) {
    const isRefused = error instanceof Refused && (error.status === 401 || error.status === 404);
    refused.value = isRefused ? whyRefused(error.status, error.message) : '';
  }
}

function onFrame(frame: LiveFrame): void {
  const hasEnded = frame.status.state === 'ended' && latest.value?.state !== 'ended';
  batch(() => {
    latest.value = frame.status;
    for (const follower of followers) follower.onFrame(frame);
  });
  // The server of a run that has ended stops a second later.
  if (hasEnded) for (const delay of [0, 400]) setTimeout(() => refresh(true), delay);
}

function onSteps(steps: LiveSteps): void {
  batch(() => {
    for (const follower of followers) follower.onSteps?.(steps);
  });
}

/** Freeze the view, or show what has arrived since. */
export function togglePause(): void {
  if (!paused.value && !canPause.value) return;
  pausedAt.value = pausedAt.value === null ? latest.value : null;
  if (!paused.value) askAgain(true);
}
