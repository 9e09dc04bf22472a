import { useState } from 'preact/hooks';
import { copy } from '../session/page';

/** Characters of a name that are shown at first: two lines. */
const SHORT = 240;

/** The whole name of a function, to be read and copied; long ones are folded. */
export function Name({ name }: { name: string }) {
  const [open, setOpen] = useState(false);
  const isLong = name.length > SHORT;
  return (
    <p class="full-name">
      <code>{isLong && !open ? `${name.slice(0, SHORT - 1)}…` : name}</code>{' '}
      {isLong && (
        <button class="quiet" aria-expanded={open} onClick={() => setOpen(!open)}>
          {open ? 'Less' : `All ${name.length.toLocaleString('en-US')} characters`}
        </button>
      )}
      <button class="quiet" onClick={() => void copy(name)}>
        Copy name
      </button>
    </p>
  );
}
