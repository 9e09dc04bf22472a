import { exact } from '../units/units';
import { useState } from 'preact/hooks';
import { placedName } from '../names/names';
import { copy } from '../session/page';

/** Characters of a name that are shown at first, about two lines. */
const SHORT = 240;

/** Full name of a function, to be read and copied; long ones are folded. */
export function Name({ name }: { name: string }) {
  const [open, setOpen] = useState(false);
  const text = placedName(name);
  const isLong = text.length > SHORT;
  return (
    <p class="full-name">
      <code>{isLong && !open ? `${text.slice(0, SHORT - 1)}…` : text}</code>{' '}
      {isLong && (
        <button class="quiet" aria-expanded={open} onClick={() => setOpen(!open)}>
          {open ? 'Less' : `All ${exact(text.length)} characters`}
        </button>
      )}
      <button class="quiet" onClick={() => void copy(name)}>
        Copy name
      </button>
    </p>
  );
}
