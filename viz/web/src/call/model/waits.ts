/** Messages of a window by how long the calls that received them had waited for them. */

import type { CallRecord, Message } from '../../shared/api/types';

export interface Waited {
  message: Message;
  /** Function of the call that it was sent or received in; its id where that is not in the window. */
  place: string;
  /** From the entry of that call to the message; null for what was sent, or where the call is not in the window. */
  wait_us: number | null;
}

/** The longest wait first; then what was sent, in its order. */
export function byWait(record: CallRecord): Waited[] {
  const calls = new Map(record.window.map((call) => [call.id, call]));
  const waited = record.messages.map((message) => {
    const call = calls.get(message.call_id);
    const wait_us = call === undefined || message.kind === 'SEND' ? null : message.time_us - call.entry_us;
    return { message, place: call?.function ?? message.call_id, wait_us };
  });
  return waited.sort((a, b) => (b.wait_us ?? -1) - (a.wait_us ?? -1));
}
