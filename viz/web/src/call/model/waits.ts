/** Messages of a window, ordered by how long the receiving call had waited for them. */

import type { CallRecord, Message } from '../../shared/api/types';

export interface Waited {
  message: Message;
  /** Function of the call that sent or received the message; the call's id where it is not in the window. */
  place: string;
  /** Time from the entry of that call to the message; null for a message that was sent, or where the call is not in the window. */
  wait_us: number | null;
}

/** Return the messages of a window, the longest wait first, and then those that were sent, in their order. */
export function byWait(record: CallRecord): Waited[] {
  const calls = new Map(record.window.map((call) => [call.id, call]));
  const waited = record.messages.map((message) => {
    const call = calls.get(message.call_id);
    const wait_us = call === undefined || message.kind === 'SEND' ? null : message.time_us - call.entry_us;
    return { message, place: call?.function ?? message.call_id, wait_us };
  });
  return waited.sort((a, b) => (b.wait_us ?? -1) - (a.wait_us ?? -1));
}
