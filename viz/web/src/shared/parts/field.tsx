import { useEffect, useRef } from 'preact/hooks';
import { say } from '../session/page';

interface FieldProps {
  label: string;
  hint: string;
  value: string;
  search?: boolean;
  /** Least and greatest value, where the field takes an integer. */
  range?: readonly [least: number, most: number];
  /** Apply the text; return false where it cannot be understood. */
  apply: (text: string) => boolean;
}

/**
 * Text field that keeps the user's text while it is edited: it takes the value of the address only when that changes.
 * A field that is bound to its value would lose the text when new data arrive.
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
    if (!understood) say(`${label} ${text} was not understood; write it like ${hint}`);
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
