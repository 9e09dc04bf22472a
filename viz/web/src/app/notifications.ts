/** Notifications of the browser about new incidents: off until the user asks for them, and only while the page is not seen. */

import { effect, signal, untracked } from '@preact/signals';
import { findingKey, findingsOf, summaryOf } from '../overview/model/findings';
import { incidents } from '../overview/overview';
import { run } from '../shared/session/session';
import { notifies, setNotifies } from '../shared/session/settings';

/** Whether this browser can notify at all: only over HTTPS, or from this computer. */
export const canNotify = 'Notification' in globalThis && isSecureContext;
/** Whether the browser was asked, and refused. */
export const isRefused = signal(canNotify && Notification.permission === 'denied');

/** Switch notifications; the browser asks its user once. */
export async function switchNotifications(on: boolean): Promise<void> {
  if (on && canNotify && Notification.permission === 'default') await Notification.requestPermission();
  isRefused.value = canNotify && Notification.permission === 'denied';
  setNotifies(on && canNotify && Notification.permission === 'granted');
}

/** Findings that are no news; null before the first answer. */
let known: ReadonlySet<string> | null = null;

effect(() => {
  const answer = incidents.value.value;
  if (answer === null) return;
  const all = findingsOf(answer);
  const before = known;
  known = new Set([...(before ?? []), ...all.map(findingKey)]);
  if (before === null || !notifies.value || !document.hidden) return;
  const fresh = all.filter((one) => !before.has(findingKey(one)));
  const [first] = fresh;
  if (first === undefined) return;
  const more = fresh.length === 1 ? '' : ` And ${fresh.length - 1} more.`;
  untracked(() => {
    const shown = new Notification(run.value.value?.name ?? 'Chimbuko', { body: summaryOf(first).sentence + more, tag: 'incidents' });
    shown.onclick = () => window.focus();
  });
});
