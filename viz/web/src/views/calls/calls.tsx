import { useMemo } from 'preact/hooks';
import { shortenAll, type ShortName } from '../../lib/names';
import type { CallSummary } from '../../lib/types';
import { columnUnit, digits, duration, exact, inUnit, ratio, sinceStart, wallClock, type DurationUnit } from '../../lib/units';
import { FIRST_VIEW, type Sort, type View } from '../../lib/view';
import { addressOf, go, view } from '../../state/address';
import { hideTip, showTip } from '../../state/page';
import { calls } from '../../state/calls';
import { programs, run, zero_us } from '../../state/session';
import { Filters } from './filters';
import { wrapped } from '../overview/functions';
import { Triangle } from '../parts/mark';
import { Empty, Panel, Reading, useHeld } from '../parts/panel';
import { follow } from '../frame/statusbar';

const orderOf = (rows: readonly CallSummary[] | null): string => rows?.map((row) => row.id).join() ?? '';

/** The abnormal calls, latest first unless sorted otherwise. */
export function Calls() {
  const page = calls.value.value;
  const held = useHeld(page?.calls ?? null, orderOf);
  const { sort, descending, cursor, function: name, rank, steps, severity_us } = view.value;
  held.ask(JSON.stringify([sort, descending, cursor, name, rank, steps, severity_us]));
  const rows = held.shown;
  const summary = page ? `${page.is_total_exact ? '' : 'More than '}${exact(page.total)} abnormal calls match.` : '';
  return (
    <Panel name="calls" title="Abnormal calls" summary={summary} actions={<Filters waits={held.waits} update={held.update} />} hold={held.handlers}>
      {calls.error.value !== null ? (
        <Empty>{calls.error.value}</Empty>
      ) : rows === null ? (
        <Reading what="calls" />
      ) : rows.length === 0 ? (
        <Nothing />
      ) : (
        <div class="scroll">
          <CallTable rows={rows} />
        </div>
      )}
    </Panel>
  );
}

function Nothing() {
  const { function: name, rank, steps, severity_us } = view.value;
  const filtered = name !== '' || rank !== null || steps !== null || severity_us > 0;
  const all = { function: '', rank: null, steps: null, severity_us: 0, cursor: null };
  if (!filtered) return <Empty>No abnormal call is stored yet.</Empty>;
  return (
    <Empty>
      Nothing matches.{' '}
      <button class="quiet" onClick={() => go(all)}>
        Drop all filters
      </button>
    </Empty>
  );
}

interface Column {
  title: string;
  sort?: Sort;
  number?: boolean;
  text(row: CallSummary): string;
}

function columnsOf(rows: readonly CallSummary[]): Column[] {
  const metric = run.value.value?.config.metric ?? 'exclusive';
  const inUnitOf = (pick: (row: CallSummary) => number): { unit: DurationUnit; text: (row: CallSummary) => string } => {
    const unit = columnUnit(rows.map(pick));
    return { unit, text: (row) => inUnit(pick(row), unit) };
  };
  const durations = (title: string, sort: Sort, pick: (row: CallSummary) => number): Column => {
    const { unit, text } = inUnitOf(pick);
    return { title: `${title}, ${unit === 'clock' ? 'h:mm:ss' : unit}`, sort, number: true, text };
  };
  return [
    { title: 'time', sort: 'entry_us', text: (row) => sinceStart(row.entry_us - zero_us.value) },
    { title: 'rank', number: true, text: (row) => (programs.value > 1 ? `${row.program}:${row.rank}` : String(row.rank)) },
    { title: 'step', sort: 'step', number: true, text: (row) => exact(row.step) },
    durations('lost', 'severity_us', (row) => row.severity_us),
    { title: '× usual', number: true, text: (row) => (row.expected_us > 0 ? ratio(row[`${metric}_us`] / row.expected_us) : '–') },
    { title: run.value.value?.config.detector === 'sstd' ? 'score, σ' : 'score', sort: 'score', number: true, text: (row) => digits(row.score) },
    durations('exclusive', 'exclusive_us', (row) => row.exclusive_us),
    durations('inclusive', 'inclusive_us', (row) => row.inclusive_us),
    { title: 'thread', number: true, text: (row) => String(row.thread) },
    { title: 'call', text: (row) => row.id },
  ];
}

function CallTable({ rows }: { rows: readonly CallSummary[] }) {
  const names = useMemo(() => shortenAll(rows.map((row) => row.function), 32), [rows]);
  const columns = columnsOf(rows);
  return (
    <table>
      <thead>
        <tr>
          <th>function</th>
          {columns.map((column) => (
            <Heading key={column.title} column={column} />
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <CallRow key={row.id} row={row} name={names.get(row.function) as ShortName} columns={columns} />
        ))}
      </tbody>
    </table>
  );
}

function Heading({ column }: { column: Column }) {
  const { sort, descending } = view.value;
  const active = column.sort === sort;
  const kind = column.number ? 'number' : undefined;
  if (column.sort === undefined) return <th class={kind}>{column.title}</th>;
  const change: Partial<View> = { sort: column.sort, descending: active ? !descending : FIRST_VIEW.descending, cursor: null };
  return (
    <th class={kind} aria-sort={active ? (descending ? 'descending' : 'ascending') : 'none'}>
      <button class="heading" onClick={() => go(change)} data-sort={column.sort}>
        {column.title} <span aria-hidden="true">{active ? (descending ? '▾' : '▴') : ''}</span>
      </button>
    </th>
  );
}

function CallRow({ row, name, columns }: { row: CallSummary; name: ShortName; columns: readonly Column[] }) {
  const target = { page: 'call', call: row.id } as const;
  const show = (element: HTMLElement, delay?: number): void => {
    const box = element.getBoundingClientRect();
    showTip({ x: box.left + 180, y: box.bottom - 8, lines: callTip(row) }, delay);
  };
  return (
    <tr data-call={row.id} onClick={(event) => follow(event, target)} onPointerEnter={(event) => show(event.currentTarget)} onPointerLeave={hideTip}>
      <td class="name">
        <a href={addressOf(target)} onClick={(event) => (follow(event, target), event.stopPropagation())} onFocus={(event) => show(event.currentTarget.parentElement as HTMLElement, 0)} onBlur={hideTip}>
          {row.label === 'anomaly' && <Triangle />} {name.text} {name.tag && <em>{name.tag}</em>}
        </a>
      </td>
      {columns.map((column) => (
        <td key={column.title} class={column.number ? 'number' : undefined}>
          {column.text(row)}
        </td>
      ))}
    </tr>
  );
}

function callTip(row: CallSummary): string[] {
  return [
    wrapped(row.function),
    `exclusive ${duration(row.exclusive_us)}, inclusive ${duration(row.inclusive_us)}; expected ${duration(row.expected_us)}`,
    `${duration(row.severity_us)} lost, score ${digits(row.score)}`,
    `rank ${row.program}:${row.rank}, thread ${row.thread}${row.node ? `, node ${row.node}` : ''}, step ${exact(row.step)}`,
    `${sinceStart(row.entry_us - zero_us.value)} to ${row.exit_us === 0 ? 'now: it has not ended' : sinceStart(row.exit_us - zero_us.value)}`,
    wallClock(row.entry_us),
    'click: why?',
  ];
}
