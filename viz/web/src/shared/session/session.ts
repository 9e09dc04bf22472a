/** The link to the server: the run, its state as last heard, and as shown (the two differ while paused). */

import { batch, computed, signal } from '@preact/signals';
import * as api from '../api/requests';
import { connect, type Events } from '../api/events';
import { Refused } from '../api/http';
import { whyRefused } from './model/status';
import { askAgain, question } from './question';
import type { LiveFrame, LiveSteps, Status } from '../api/types';

/** Lists are asked for again at most this often: who reads them must be able to. */
const REFRESH_MS = 2000;

const latest = signal<Status | null>(null);
const pausedAt = signal<Status | null>(null);

/** When the link was lost, ms; null while it stands. */
export const lostAt = signal<number | null>(null);
/** Why it does not come back, though the server answers: it is another one by now, or the run is gone. '' where that is not so. */
export const refused = signal('');
export const paused = computed(() => pausedAt.value !== null);
/** Whether news may come that a user would not want to see yet. */
export const canPause = computed(() => latest.value !== null && latest.value.state !== 'ended');
export const status = computed(() => pausedAt.value ?? latest.value);
export const arrivedWhilePaused = computed(() => (pausedAt.value === null || latest.value === null ? 0 : latest.value.anomalies - pausedAt.value.anomalies));
/** Zero of all times shown. */
export const zero_us = computed(() => status.value?.zero_us ?? 0);

export const run = question(() => 'run', readRun, { live: true, keep: true });
export const programs = computed(() => Object.keys(run.value.value?.programs ?? {}).length);

/** What wants to hear of frames, and of a link that stands (again). */
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
/** Put a long question; the page may ask before there is a link. */
export const ask: Events['ask'] = async (...question) => (await begun).ask(...question);
/** A long question may come soon. */
export const prepare = async (): Promise<void> => (await begun).prepare();

/** Begin to follow the run. */
export function start(): void {
  events = connect({ onLink, onFrame, onSteps });
  begin(events);
  setInterval(() => refresh(), REFRESH_MS);
}

async function readRun(signal: AbortSignal): ReturnType<typeof api.getRun> {
  const known = await api.getRun(signal);
  if (latest.value === null || known.status.version >= latest.value.version) latest.value = known.status;
  return known;
}

/** Ask again for what is shown if anything has happened since, and once more: the store may be a moment behind. */
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

/** A server that is not there says nothing; one that will have none of us says why. */
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
  // The server of a run that has ended goes with it, a second later.
  if (hasEnded) for (const delay of [0, 400]) setTimeout(() => refresh(true), delay);
}

function onSteps(steps: LiveSteps): void {
  batch(() => {
    for (const follower of followers) follower.onSteps?.(steps);
  });
}

/** Freeze the picture, or show what has come since. */
export function togglePause(): void {
  if (!paused.value && !canPause.value) return;
  pausedAt.value = pausedAt.value === null ? latest.value : null;
  if (!paused.value) askAgain(true);
}
