/** Socket over which the server sends news. It reconnects by itself. */

import { io } from 'socket.io-client';
import { keepKey, mount } from './http';
import { isReport } from './report';
import { askingOver, type Ask } from './jobs';
import type { LiveFrame, LiveSteps, RankKey } from './types';

export interface Listener {
  onLink(connected: boolean): void;
  onFrame(frame: LiveFrame): void;
  onSteps(steps: LiveSteps): void;
}

export interface Events {
  /** Subscribe to the steps of these ranks only; it resolves as soon as no later step of theirs can be missed. */
  watch(ranks: readonly RankKey[]): Promise<void>;
  /** Ask a long question. */
  ask: Ask;
  /** Announce that a long question may follow, so that a worker is ready. */
  prepare(): void;
}

export function connect(listener: Listener): Events {
  if (isReport) return withoutServer(listener);
  const base = new URL(document.baseURI);
  const socket = io(new URL('events', base.origin).href, {
    path: new URL(`${mount}socket.io/`, base).pathname,
    transports: ['websocket', 'polling'],
    reconnectionDelay: 500,
    reconnectionDelayMax: 2000,
  });
  void keepKey();
  socket.on('connect', () => listener.onLink(true));
  socket.on('disconnect', () => listener.onLink(false));
  socket.on('connect_error', () => listener.onLink(false));
  socket.on('frame', (frame: LiveFrame) => listener.onFrame(frame));
  socket.on('steps', (steps: LiveSteps) => listener.onSteps(steps));
  return {
    ask: askingOver(socket),
    prepare: () => void socket.emit('prepare'),
    async watch(ranks) {
      if (socket.connected) await socket.timeout(5000).emitWithAck('watch', ranks);
    },
  };
}

/** Events of a report, which has no server and no news. */
function withoutServer(listener: Listener): Events {
  queueMicrotask(() => listener.onLink(true));
  return {
    ask: () => Promise.reject(new Error('A report cannot answer this. It needs a server: chimbuko view starts one.')),
    prepare: () => undefined,
    watch: () => Promise.resolve(),
  };
}
