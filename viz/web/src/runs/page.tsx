import { useEffect, useRef } from 'preact/hooks';
import { folderAnswer, folderNews, lengthOf, stateOf, totalsOf } from '../shared/names/runs';
import { bytes, wallClock } from '../shared/units/units';
import { AppearanceChoice } from '../shared/parts/appearancechoice';
import { lettersAct } from '../shared/session/settings';
import { answer, comparison, lost, missing, pageOf, shown, text, tick, ticked, trouble } from './runs';
import type { ListedRun } from '../shared/api/types';
import { Answer } from '../shared/parts/sentence';

/** Page of all runs in a folder: their states, the time that they lost, and the choice of two to compare. */
export function Runs() {
  const filter = useRef<HTMLInputElement>(null);
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      const isTyping = event.target instanceof HTMLInputElement && event.target.type === 'text';
      if (event.key !== '/' || isTyping || event.ctrlKey || event.metaKey || event.altKey || !lettersAct.value) return;
      event.preventDefault();
      filter.current?.select();
    };
    addEventListener('keydown', onKey);
    return () => removeEventListener('keydown', onKey);
  }, []);
  return (
    <div class="page" data-page="runs">
      <header>
        <div class="bar">
          <span class="run">Chimbuko</span>
          <span class="fact">{answer.value?.folder}</span>
          <span class="space" />
          <AppearanceChoice />
        </div>
        {(missing !== '' || lost !== '' || trouble.value !== '') && (
          <p class="banner" role="status">
            {trouble.value ||
              (lost !== '' ? `There is no page ${lost} here. These are the runs in this folder.` : '') ||
              `There is no run ${missing} here, or not any more. These are the runs in this folder.`}
          </p>
        )}
      </header>
      <main class="runs-page">
        <Answer text={answer.value === null ? 'Reading runs…' : folderAnswer(answer.value.runs)} />
        <p class="hidden" aria-live="polite">
          {answer.value !== null && folderNews(answer.value.runs, shown.value.length, text.value)}
        </p>
        {answer.value !== null && (
          <>
            <div class="runs-tools">
              <input
                ref={filter}
                type="text"
                class="wide"
                aria-label="Filter runs"
                placeholder="/ filter: program, name, state, exit 1 …"
                spellcheck={false}
                value={text.value}
                onInput={(event) => (text.value = event.currentTarget.value)}
              />
              <Compare />
              <span class="unit">↑ ↓ move from run to run, Enter opens one, X selects it for comparison.</span>
            </div>
            <List />
          </>
        )}
      </main>
    </div>
  );
}

/** Link to the comparison of the two runs that are ticked. */
function Compare() {
  if (comparison.value !== '') {
    return (
      <a class="button" href={new URL(comparison.value, document.baseURI).href}>
        Compare the two
      </a>
    );
  }
  return (
    <button disabled title="Tick two runs">
      {ticked.value.length === 1 ? 'Tick one more to compare' : 'Tick two to compare'}
    </button>
  );
}

const COLUMNS: readonly (readonly [heading: string, isNumber: boolean, title: string])[] = [
  ['', false, 'Compare'],
  ['run', false, ''],
  ['program', false, 'The program, without its launcher'],
  ['state', false, ''],
  ['began', false, 'UTC'],
  ['took', true, ''],
  ['ranks', true, ''],
  ['time lost', true, 'Core time lost by incidents and recurring findings'],
  ['▲ anomalies', true, ''],
  ['size', true, 'Size on the disk'],
];

function List() {
  const runs = shown.value;
  if (runs.length === 0) return <Nothing />;
  return (
    <section class="panel runs" aria-label="Runs" onKeyDown={walk}>
      <table>
        <thead>
          <tr>
            {COLUMNS.map(([heading, isNumber, title]) => (
              <th key={heading} scope="col" class={isNumber ? 'number' : undefined} title={title}>
                {heading === '' ? <span class="hidden">{title}</span> : heading}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {runs.map((run) => (
            <Row key={run.folder} run={run} />
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Row({ run }: { run: ListedRun }) {
  const isBad = ['died', 'failed'].includes(run.state) || (run.exit_code ?? 0) !== 0;
  return (
    <tr data-run={run.folder} data-state={run.state}>
      <td>
        <input type="checkbox" aria-label={`Compare ${run.name}`} checked={ticked.value.includes(run.folder)} onChange={() => tick(run.folder)} />
      </td>
      <td>
        <a href={pageOf(run.address)} title={run.path}>
          {run.name}
        </a>
      </td>
      <td title={run.command.join(' ')}>{run.program}</td>
      <td class={isBad ? 'abnormal' : undefined}>
        {run.state === 'running' && <span aria-hidden="true">● </span>}
        {stateOf(run)}
      </td>
      <td>{wallClock(run.started_us).slice(0, 16)}</td>
      <td class="number">{lengthOf(run)}</td>
      {totalsOf(run).map((text, at) => (
        <td key={at} class="number">
          {text}
        </td>
      ))}
      <td class="number">{bytes(run.stored_bytes)}</td>
    </tr>
  );
}

function Nothing() {
  if ((answer.value?.runs.length ?? 0) > 0)
    return <p class="empty">No run matches all of these words. The filter searches name, program, command and state.</p>;
  return (
    <p class="empty">
      Runs appear here as soon as they begin: <code>chimbuko run -- mpirun -n 4 ./program</code>, in the folder that holds {answer.value?.folder}.
    </p>
  );
}

/** Keys that act while the focus is in the list. */
function walk(event: KeyboardEvent): void {
  const row = (event.target as HTMLElement).closest('tr');
  const way = { ArrowDown: 'nextElementSibling', ArrowUp: 'previousElementSibling' }[event.key];
  if (row === null || event.ctrlKey || event.metaKey || event.altKey) return;
  if (way !== undefined) {
    (row[way as 'nextElementSibling'] as HTMLElement | null)?.querySelector('a')?.focus();
  } else if (event.key.toLowerCase() === 'x' && row.dataset['run'] !== undefined) tick(row.dataset['run']);
  else return;
  event.preventDefault();
}
