import { useEffect, useRef } from 'preact/hooks';
import { helpOpen } from '../../state/page';

const KEYS: readonly (readonly [string, string])[] = [
  ['/', 'search functions'],
  ['?', 'this help'],
  ['Esc', 'close, clear the choice of steps'],
  ['Space', 'pause, resume'],
  ['L', 'all steps, and those to come'],
  ['[ ]', 'previous, next call of the table, or function of a comparison'],
  ['U', 'up: from a call or comparison to the run'],
  ['V', 'compare with another run'],
  ['C', 'copy link'],
  ['Shift+C', 'copy command'],
  ['T', 'table instead of pictures: of the focused panel, or all'],
  ['arrows, Enter', 'in a chart: next mark, list its calls'],
  ['W S + -', 'in the chart: zoom'],
  ['A D', 'in the chart: pan'],
  ['0 F', 'in the chart: all steps, chosen steps'],
  ['drag, double click', 'in the chart: choose steps, all again'],
  ['Ctrl-wheel', 'in the chart: zoom'],
];

const MARKS: readonly (readonly [string, string])[] = [
  ['▲', 'abnormal call, slower than usual'],
  ['◎', 'recorded normal call'],
  ['hatched', 'unknown: not analysed, or analysed and not kept'],
];

/** Keys and marks. */
export function Help() {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (helpOpen.value) dialog.current?.showModal();
    else dialog.current?.close();
  }, [helpOpen.value]);
  return (
    <dialog ref={dialog} aria-label="Help" onClose={() => (helpOpen.value = false)} onClick={(event) => event.target === dialog.current && (helpOpen.value = false)}>
      <button class="close" onClick={() => (helpOpen.value = false)}>
        Close
      </button>
      <h2>Keys</h2>
      <List rows={KEYS} />
      <h2>Marks</h2>
      <List rows={MARKS} />
    </dialog>
  );
}

function List({ rows }: { rows: readonly (readonly [string, string])[] }) {
  return (
    <dl>
      {rows.map(([term, text]) => (
        <>
          <dt>
            <kbd>{term}</kbd>
          </dt>
          <dd>{text}</dd>
        </>
      ))}
    </dl>
  );
}
