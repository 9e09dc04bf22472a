/** Light or dark: as the system says, unless the user chose. Not part of the address. */

import { computed, effect, signal } from '@preact/signals';
import { COLOURS, GROUP_FILLS, pick, SLOT_COLOURS, type Theme } from '../lib/tokens';

const KEY = 'chimbuko-theme';
const systemDark = matchMedia('(prefers-color-scheme: dark)');
const system = signal<Theme>(systemDark.matches ? 'dark' : 'light');
const chosen = signal<Theme | null>(stored());

export const theme = computed<Theme>(() => chosen.value ?? system.value);

systemDark.addEventListener('change', () => {
  system.value = systemDark.matches ? 'dark' : 'light';
});

export function toggleTheme(): void {
  chosen.value = theme.value === 'dark' ? 'light' : 'dark';
  localStorage.setItem(KEY, chosen.value);
}

function stored(): Theme | null {
  const value = localStorage.getItem(KEY);
  return value === 'light' || value === 'dark' ? value : null;
}

effect(() => {
  const style = document.documentElement.style;
  style.colorScheme = theme.value;
  for (const [name, pair] of Object.entries(COLOURS)) style.setProperty(`--${name}`, pick(pair, theme.value));
  for (const [name, pair] of Object.entries(GROUP_FILLS)) style.setProperty(`--fill-${name}`, pick(pair, theme.value));
  SLOT_COLOURS.forEach((pair, slot) => style.setProperty(`--slot-${slot}`, pick(pair, theme.value)));
});
