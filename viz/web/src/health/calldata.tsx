import { exact, plural } from '../shared/units/units';
import { missing, namesText, reasons, together } from './model/health';
import { vitals } from './health';
import { Empty, Panel } from '../shared/parts/panel';
import { Table } from '../shared/parts/table';
import type { RankCensus } from '../shared/api/types';

const COLUMNS = [
  { heading: 'rank' },
  { heading: 'recorded by' },
  { heading: 'calls that it saw', isNumber: true },
  { heading: 'calls analysed', isNumber: true },
  { heading: 'of these not ended', isNumber: true },
  { heading: 'left out on purpose', isNumber: true },
  { heading: 'missing' },
];

/** Calls that were analysed of each rank beside those that its source saw. */
export function CallData() {
  const census = vitals.value.value?.census;
  if (census === undefined) return null;
  const ranks = census.counted + census.uncounted;
  const shown = census.ranks.length < ranks ? ` The ${census.ranks.length} of ${exact(ranks)} ranks that miss most:` : '';
  return (
    <Panel name="calldata" title="Call data" summary={`Call data: ${census.sentence}.`} asks={{ json: ['vitals', []] }}>
      {ranks === 0 ? (
        <Empty>No stream has been read yet.</Empty>
      ) : (
        <>
          <p class="unit">
            {plural(census.analysed, 'call')} analysed; {census.sentence}.{shown}
          </p>
          <Table columns={COLUMNS} rows={together(census.ranks, told).map(cells)} />
        </>
      )}
    </Panel>
  );
}

/** What is told of a rank, beside its name. */
function told({ source, seen, analysed, unended, differences }: RankCensus): string[] {
  return [
    source || 'it does not say',
    seen === null ? '–' : exact(seen),
    exact(analysed),
    exact(unended),
    seen === null ? '–' : exact(Math.max(0, seen - analysed - missing({ differences }))),
    seen === null ? 'not known' : reasons({ differences }) || 'nothing',
  ];
}

function cells(ranks: RankCensus[]) {
  const names = ranks.map(({ stream }) => stream);
  const [first] = ranks as [RankCensus];
  const numbers = told(first);
  const lost = numbers.pop();
  return [
    <span title={names.join(', ')}>{namesText(names, 'rank')}</span>,
    ...numbers,
    <span class={first.seen !== null && reasons(first) !== '' ? 'warn' : undefined}>{lost}</span>,
  ];
}
