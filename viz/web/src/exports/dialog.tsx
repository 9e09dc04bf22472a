import { useEffect, useRef } from 'preact/hooks';
import { exportCommand } from '../shared/asking/commands';
import { filtersOf } from '../shared/asking/filters';
import { bytes } from '../shared/units/units';
import { addressOfApi } from '../shared/api/http';
import { view } from '../shared/address/address';
import { choose, closeExports, exported, exportsOpen, format, formats, startExport } from './exports';
import { copy } from '../shared/session/page';
import { programs, run } from '../shared/session/session';
import { Progress } from '../shared/parts/progress';

/** Dialog that exports the calls of the filters to a file for other tools. */
export function Exports() {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (exportsOpen.value) dialog.current?.showModal();
    else dialog.current?.close();
  }, [exportsOpen.value]);
  return (
    <dialog ref={dialog} class="exports" aria-label="Export" onClose={closeExports}>
      {exportsOpen.value && <Choice />}
    </dialog>
  );
}

function Choice() {
  const filters = filtersOf(view.value).map((filter) => filter.text(view.value, programs.value));
  const directory = run.value.value?.directory;
  const chosen = format.value;
  const hasBegun = exported.busy.value || exported.cancelled.value || exported.error.value !== null;
  return (
    <>
      <button class="close" onClick={closeExports}>
        Close
      </button>
      <h2>Export recorded calls</h2>
      <p>
        {filters.length === 0 ? 'The whole run' : `Calls that match the filters: ${filters.join(', ')}`}, with the calls around them, messages and counters.
      </p>
      <fieldset disabled={exported.busy.value}>
        <legend>For</legend>
        {formats.value.value?.formats.map(({ name, purpose, is_installed }) => (
          <label key={name}>
            <input type="radio" name="format" value={name} checked={chosen?.name === name} disabled={!is_installed} onChange={() => choose(name)} />
            <span>{name}</span>
            <span class="unit">{is_installed ? purpose : `${purpose}: pip install 'chimbuko[${name}]' where the dashboard runs`}</span>
          </label>
        ))}
      </fieldset>
      {hasBegun && <Progress job={exported} what="calls" />}
      {exported.value.value !== null && <Saved {...exported.value.value} />}
      {!hasBegun && (
        <span class="inline">
          {exported.value.value === null && (
            <button class="primary" disabled={chosen === undefined} onClick={startExport}>
              Export
            </button>
          )}
          {directory !== undefined && chosen !== undefined && (
            <button class="quiet" onClick={() => void copy(exportCommand(directory, chosen, view.value))} title="The same export in the terminal">
              Copy command
            </button>
          )}
        </span>
      )}
    </>
  );
}

/** Saves the file at once; where the browser prevents that, the link saves it. */
function Saved({ name, bytes: size, address }: { name: string; bytes: number; address: string }) {
  const link = useRef<HTMLAnchorElement>(null);
  useEffect(() => link.current?.click(), [address]);
  return (
    <p>
      <a ref={link} href={addressOfApi(address, []).href} download={name}>
        {name}
      </a>{' '}
      ({bytes(size)}), kept for a minute.
    </p>
  );
}
