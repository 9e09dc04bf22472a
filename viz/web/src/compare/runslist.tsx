import { mount } from '../shared/api/http';
import { quoted } from '../shared/asking/commands';
import { lengthOf, runsAnswer, stateOf, totalsOf } from '../shared/names/runs';
import { percent, plural, wallClock } from '../shared/units/units';
import { addressOf, follow, view } from '../shared/address/address';
import { runs } from './comparison';
import { copy } from '../shared/session/page';
import { Empty, Panel, Reading } from '../shared/parts/panel';
import { Table } from '../shared/parts/table';
import type { ListedRun } from '../shared/api/types';
import { Answer } from '../shared/parts/sentence';

const COLUMNS = [
  { heading: 'run' },
  { heading: 'program' },
  { heading: 'state' },
  { heading: 'began' },
  { heading: 'took', isNumber: true },
  { heading: 'ranks', isNumber: true },
  { heading: 'time lost', isNumber: true },
  { heading: '▲ anomalies', isNumber: true },
  { heading: 'loss', isNumber: true },
  { heading: 'what to do' },
];

/** Runs in the same folder, each with a link that compares with it and a way to open it. */
export function RunsList() {
  const found = runs.value.value?.runs ?? null;
  if (found === null) return runs.error.value === null ? <Reading what="runs" /> : <Empty>{runs.error.value}</Empty>;
  return (
    <>
      <Answer text={runsAnswer(found, view.value.run)} />
      {found.length < 2 && <Empty>Put another run into the same folder, or compare any two in the terminal: chimbuko compare RUN_A RUN_B</Empty>}
      <Panel name="runs" title="Runs in this folder" summary={`${plural(found.length, 'run')}, the newest first.`} asks={{ json: ['runs', []] }}>
        <Table columns={COLUMNS} rows={found.map(cells)} />
      </Panel>
      {mount === '' && <p class="unit">This dashboard shows one run. To open another one, use its command, which prints another address.</p>}
    </>
  );
}

function cells(run: ListedRun) {
  return [
    <span title={run.path}>
      {run.folder}
      {run.name !== run.folder && ` (${run.name})`}
    </span>,
    run.program,
    stateOf(run),
    wallClock(run.started_us),
    lengthOf(run),
    ...totalsOf(run),
    percent(run.loss),
    run.is_this ? 'shown here' : <Actions run={run} />,
  ];
}

function Actions({ run }: { run: ListedRun }) {
  const compared = { page: 'compare', compare: run.folder, also: '' } as const;
  return (
    <span class="actions">
      <a href={addressOf(compared)} onClick={(event) => follow(event, compared)} aria-label={`What changed since ${run.folder}`}>
        What changed since
      </a>
      {mount === '' ? (
        <button class="quiet" aria-label={`Copy command to open ${run.folder}`} onClick={() => void copy(`chimbuko view ${quoted(run.path)}`)}>
          Copy command to open
        </button>
      ) : (
        <a href={new URL(`r/${encodeURIComponent(run.address)}`, document.baseURI).href} aria-label={`Open ${run.folder}`}>
          Open
        </a>
      )}
    </span>
  );
}
