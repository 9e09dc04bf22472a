/** State of the page that is not in the address: the tooltip, what the pointer is over, messages. */

import { signal } from '@preact/signals';
import type { RankKey } from '../api/types';

export interface Tip {
  x: number;
  y: number;
  /** Lines: name, amount, expectation, place, time, context, and what a click does. */
  lines: readonly string[];
}

export const tip = signal<Tip | null>(null);
export const hoveredRank = signal<RankKey | null>(null);
/** Name of the function under the pointer. */
export const hoveredFunction = signal<string | null>(null);
/** Message that is shown for a moment, and read out. */
export const notice = signal('');
/** Text for screen readers: what the keyboard has moved to. */
export const spoken = signal('');
export const helpOpen = signal(false);

const TIP_DELAY_MS = 80;
let waiting: ReturnType<typeof setTimeout> | undefined;

/** Show a tooltip after a delay, which is 0 for the keyboard. */
export function showTip(next: Tip, delay = TIP_DELAY_MS): void {
  clearTimeout(waiting);
  if (delay === 0 || tip.value !== null) tip.value = next;
  else waiting = setTimeout(() => (tip.value = next), delay);
}

export function hideTip(): void {
  clearTimeout(waiting);
  tip.value = null;
}

let fading: ReturnType<typeof setTimeout> | undefined;

export function say(text: string): void {
  notice.value = text;
  clearTimeout(fading);
  fading = setTimeout(() => (notice.value = ''), 6000);
}

/** Copy a text to the clipboard; where the browser forbids it, the user can copy it from the message. */
export async function copy(coming: string | Promise<string>): Promise<void> {
  let text: string;
  try {
    text = await coming;
  } catch (error) {
    return say(`Nothing was copied: ${String(error)}`);
  }
  try {
    await navigator.clipboard.writeText(text);
    say(`Copied: ${text}`);
  } catch {
    say(`Copy this: ${text}`);
  }
}

/** Whether a dialog is open, which then takes all keys. The document knows it at once; the closing event comes later. */
export const isDialogOpen = (): boolean => document.querySelector('dialog[open]') !== null;
