import { useEffect, useRef } from 'preact/hooks';
import { say } from '../session/page';

interface FieldProps {
  label: string;
  hint: string;
  value: string;
  search?: boolean;
  /** Least and most, where the field takes a whole number. */
  range?: readonly [least: number, most: number];
  /** Take the text over; false where it makes no sense. */
  apply: (text: string) => boolean;
}

/**
 * A text field that is the user's while it is being edited: it takes over what the address says only
 * when that changes. Bound to its value it would lose what is typed at the next arrival of data.
 */
export function Field({ label, hint, value, search, range, apply }: FieldProps) {
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (input.current) input.current.value = value;
  }, [value]);
  const submit = (element: HTMLInputElement): void => {
    const text = element.value.trim();
    if (text === value) return;
    const understood = apply(text);
    element.setAttribute('aria-invalid', String(!understood));
    if (!understood) say(`${label} ${text}: not understood; write it like ${hint}`);
  };
  return (
    <label class="inline">
      {label}
      <input
        ref={input}
        class={search ? 'wide' : range ? undefined : 'narrow'}
        {...(range ? { type: 'number' as const, min: range[0], max: range[1] } : { type: 'text' as const })}
        placeholder={hint}
        spellcheck={false}
        data-search={search ? '' : undefined}
        onChange={(event) => submit(event.currentTarget)}
        onKeyDown={(event) => event.key === 'Enter' && submit(event.currentTarget)}
      />
    </label>
  );
}
