import { duration, exact, parseDuration } from '../../lib/units';
import { parseRank } from '../../lib/view';
import { PAGE_SIZE } from '../../net/api';
import { go, view } from '../../state/address';
import { calls } from '../../state/calls';
import { Field } from '../parts/field';

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
          {page.is_total_exact ? '' : '+'}
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
