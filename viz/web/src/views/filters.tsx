import { useEffect, useRef } from 'preact/hooks';
import { parseDuration } from '../lib/units';
import { duration, exact } from '../lib/units';
import { parseRank } from '../lib/view';
import { go, view } from '../state/address';
import { say } from '../state/page';
import { calls } from '../state/session';
import { PAGE_SIZE } from '../net/http';

/** Filters and pages of the table of calls. */
export function Filters({ waits, update }: { waits: boolean; update: () => void }) {
  const { function: name, rank, severity_us, cursor } = view.value;
  const page = calls.value.value;
  return (
    <>
      <Field label="Function" hint="MPI_*" value={name} search apply={(text) => (go({ function: text, cursor: null }), true)} />
      <Field
        label="Rank"
        hint="0:3"
        value={rank ?? ''}
        apply={(text) => {
          const parsed = text === '' ? null : parseRank(text);
          if (parsed === undefined) return false;
          go({ rank: parsed, cursor: null });
          return true;
        }}
      />
      <Field
        label="Lost ≥"
        hint="5 ms"
        value={severity_us > 0 ? duration(severity_us) : ''}
        apply={(text) => {
          const parsed = text === '' ? 0 : parseDuration(text);
          if (parsed === null) return false;
          go({ severity_us: parsed, cursor: null });
          return true;
        }}
      />
      {waits && (
        <button class="quiet" onClick={update}>
          order changed · update
        </button>
      )}
      <span class="space" />
      {page && (
        <span class="unit" data-total={page.total}>
          {page.calls.length < page.total ? `${PAGE_SIZE} at a time of ` : ''}
          {exact(page.total)}
        </span>
      )}
      {cursor !== null && (
        <button class="quiet" onClick={() => go({ cursor: null })}>
          First
        </button>
      )}
      {page?.next && (
        <button class="quiet" onClick={() => go({ cursor: page.next })}>
          Next ›
        </button>
      )}
    </>
  );
}

interface FieldProps {
  label: string;
  hint: string;
  value: string;
  search?: boolean;
  /** Take the text over; false where it makes no sense. */
  apply: (text: string) => boolean;
}

function Field({ label, hint, value, search, apply }: FieldProps) {
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
        class={search ? 'wide' : 'narrow'}
        type="text"
        placeholder={hint}
        spellcheck={false}
        data-search={search ? '' : undefined}
        onChange={(event) => submit(event.currentTarget)}
        onKeyDown={(event) => event.key === 'Enter' && submit(event.currentTarget)}
      />
    </label>
  );
}
