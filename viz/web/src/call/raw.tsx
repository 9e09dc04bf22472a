import { useState } from 'preact/hooks';
import { exact } from '../shared/units/units';
import { metadataRequest } from '../shared/api/functionrequests';
import { metadata } from './call';
import { copy } from '../shared/session/page';
import { Listed } from '../shared/parts/listed';
import type { CallRecord } from '../shared/api/types';

/** The record as the server sends it, folded at first. */
export function RawRecord({ record }: { record: CallRecord }) {
  const [open, setOpen] = useState(false);
  return (
    <details class="panel raw" open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <h2>Raw record</h2> <span class="unit">JSON, all fields</span>
      </summary>
      {open && (
        <>
          <button class="quiet" onClick={() => void copy(JSON.stringify(record))}>
            Copy record
          </button>
          <pre tabIndex={0} aria-label="Raw record">
            {JSON.stringify(record, null, 1)}
          </pre>
        </>
      )}
    </details>
  );
}

/** Metadata of the rank: its node, command and settings. */
export function RankMetadata({ record }: { record: CallRecord }) {
  const found = metadata.value.value;
  const rows = (found?.metadata ?? []).map(({ thread, key, value }) => [key, value, String(thread)]);
  const columns = [
    ['attribute', false],
    ['value', false],
    ['thread', true],
  ] as const;
  const more = found !== null && found.total > rows.length && <span class="unit">{`${exact(rows.length)} of ${exact(found.total)}`}</span>;
  return (
    <Listed
      name="metadata"
      title={`Metadata of rank ${record.rank}`}
      columns={columns}
      rows={rows}
      nothing={metadata.error.value ?? (found === null ? 'Reading metadata…' : 'This rank sent no metadata.')}
      actions={more}
      asks={{ json: metadataRequest(record.program, record.rank), hasSql: true }}
    />
  );
}
