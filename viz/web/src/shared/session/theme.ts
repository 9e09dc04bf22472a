/** Appearance of the page: the system's, unless the user has chosen another. The browser keeps it; it is not in the address. */

import { keep, readKept } from './kept';
import { computed, effect, signal } from '@preact/signals';
import { COLOURS, GROUP_FILLS, HEAT_RAMP, pick, SLOT_COLOURS, type Theme } from '../charts/model/tokens';

export const APPEARANCES = ['system', 'light', 'dark', 'projector'] as const;
export type Appearance = (typeof APPEARANCES)[number];

/** Zoom for a projector, which is far away. */
const PROJECTOR_ZOOM = 1.25;

const KEY = 'chimbuko-theme';
const systemDark = matchMedia('(prefers-color-scheme: dark)');
const system = signal<Theme>(systemDark.matches ? 'dark' : 'light');

export const appearance = signal<Appearance>(APPEARANCES.find((one) => one === readKept(KEY)) ?? 'system');

export const theme = computed<Theme>(() => {
  if (appearance.value === 'system') return system.value;
  return appearance.value === 'dark' ? 'dark' : 'light';
});

/** Zoom of the page. */
export const pageZoom = computed(() => (appearance.value === 'projector' ? PROJECTOR_ZOOM : 1));

systemDark.addEventListener('change', () => {
  system.value = systemDark.matches ? 'dark' : 'light';
});

export function choose(next: Appearance): void {
  appearance.value = next;
  keep(KEY, next);
}

effect(() => {
  const style = document.documentElement.style;
  style.colorScheme = theme.value;
  style.setProperty('--zoom', String(pageZoom.value));
  for (const [name, pair] of Object.entries(COLOURS)) style.setProperty(`--${name}`, pick(pair, theme.value));
  for (const [name, pair] of Object.entries(GROUP_FILLS)) style.setProperty(`--fill-${name}`, pick(pair, theme.value));
  HEAT_RAMP.forEach((pair, bin) => style.setProperty(`--heat-${bin}`, pick(pair, theme.value)));
  SLOT_COLOURS.forEach((pair, slot) => style.setProperty(`--slot-${slot}`, pick(pair, theme.value)));
});
