import { useEffect, useMemo, useRef } from 'preact/hooks';
import { callLines, isFaster } from './model/callpoints';
import { shortenAll, type ShortName } from '../shared/names/names';
import { columnUnit, digits, exact, inUnit, ratio, scoreHeading } from '../shared/units/units';
import { FIRST_VIEW, type Sort, type View } from '../shared/address/model/view';
import { addressOf, follow, go, view } from '../shared/address/address';
import { hoveredCall, open, wording } from './calls';
import { timeText } from '../shared/session/clock';
import { hideTip, showTip } from '../shared/session/page';
import { IncidentLink } from '../shared/parts/incidentlink';
import type { CallSummary } from '../shared/api/types';

interface Column {
  title: string;
  sort?: Sort;
  number?: boolean;
  text(row: CallSummary): string;
}

/** Columns of the table except the function; all durations of a column have one unit. */
function columnsOf(rows: readonly CallSummary[]): Column[] {
  const { programs, metric, scoreUnit } = wording.value;
  const durations = (title: string, sort: Sort, pick: (row: CallSummary) => number): Column => {
    const unit = columnUnit(rows.map(pick));
    return { title: `${title}, ${unit === 'clock' ? 'h:mm:ss' : unit}`, sort, number: true, text: (row) => inUnit(pick(row), unit) };
  };
  return [
    { title: 'entry', sort: 'entry_us', text: (row) => timeText(row.entry_us) },
    { title: 'exit', text: (row) => (row.exit_us === 0 ? 'open' : timeText(row.exit_us)) },
    { title: 'rank', sort: 'rank', number: true, text: (row) => (programs > 1 ? `${row.program}:${row.rank}` : String(row.rank)) },
    { title: 'step', sort: 'step', number: true, text: (row) => exact(row.step) },
    durations('severity', 'severity_us', (row) => row.severity_us),
    { title: '× usual', number: true, text: (row) => (row.expected_us > 0 ? ratio(row[`${metric}_us`] / row.expected_us) : '–') },
    { title: scoreHeading(scoreUnit), sort: 'score', number: true, text: (row) => digits(row.score) },
    durations('exclusive', 'exclusive_us', (row) => row.exclusive_us),
    durations('inclusive', 'inclusive_us', (row) => row.inclusive_us),
    { title: 'children', sort: 'children', number: true, text: (row) => exact(row.children) },
    { title: 'messages', sort: 'messages_count', number: true, text: (row) => exact(row.messages_count) },
    { title: 'thread', sort: 'thread', number: true, text: (row) => String(row.thread) },
    { title: 'node', text: (row) => row.node },
    { title: 'GPU', text: (row) => (row.is_gpu ? 'yes' : 'no') },
    { title: 'label', text: (row) => row.label },
  ];
}

export function CallTable({ rows }: { rows: readonly CallSummary[] }) {
  const names = useMemo(
    () =>
      shortenAll(
        rows.map((row) => row.function),
        32,
      ),
    [rows],
  );
  const columns = columnsOf(rows);
  const hasIncidents = rows.some((row) => row.incident_id);
  const body = useRef<HTMLTableSectionElement>(null);
  useEffect(() => {
    body.current?.querySelector('.selected')?.scrollIntoView({ block: 'nearest' });
  }, [view.value.call, rows]);
  return (
    <table class="call-table">
      <thead>
        <tr>
          <th>function</th>
          <th>call</th>
          {hasIncidents && <th>incident</th>}
          {columns.map((column) => (
            <Heading key={column.title} column={column} />
          ))}
        </tr>
      </thead>
      <tbody ref={body}>
        {rows.map((row) => (
          <CallRow key={row.id} row={row} name={names.get(row.function) as ShortName} columns={columns} hasIncidents={hasIncidents} />
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

interface RowProps {
  row: CallSummary;
  name: ShortName;
  columns: readonly Column[];
  /** Whether one of the calls is part of an incident, which gives the table a column for it. */
  hasIncidents: boolean;
}

function CallRow({ row, name, columns, hasIncidents }: RowProps) {
  const isChosen = view.value.call === row.id;
  const why = { page: 'call', call: row.id } as const;
  const show = (element: HTMLElement, delay?: number): void => {
    hoveredCall.value = row.id;
    const box = element.getBoundingClientRect();
    showTip(
      { x: box.left + 180, y: box.bottom - 8, lines: [...callLines(row, wording.value), view.value.call === row.id ? 'click: its timeline' : 'click: select'] },
      delay,
    );
  };
  const leave = (): void => {
    hoveredCall.value = null;
    hideTip();
  };
  const choose = (element: HTMLElement): void => {
    open(row.id);
    if (view.value.page === 'calls') show(element, 0);
  };
  const kinds = [isChosen && 'selected', hoveredCall.value === row.id && 'pointed'].filter(Boolean).join(' ');
  return (
    <tr
      data-call={row.id}
      class={kinds || undefined}
      onClick={(event) => choose(event.currentTarget)}
      onPointerEnter={(event) => show(event.currentTarget)}
      onPointerLeave={leave}
    >
      <td class="name">
        <button class="row-name" aria-pressed={isChosen} onFocus={(event) => show(event.currentTarget.parentElement as HTMLElement, 0)} onBlur={leave}>
          <Sign row={row} /> {name.text} {name.tag && <em>{name.tag}</em>}
        </button>
      </td>
      <td>
        <a href={addressOf(why)} title="Why was it slow? Everything kept about it" onClick={(event) => (follow(event, why), event.stopPropagation())}>
          {row.id}
        </a>
      </td>
      {hasIncidents && <td>{row.incident_id ? <IncidentLink id={row.incident_id} /> : '–'}</td>}
      {columns.map((column) => (
        <td key={column.title} class={column.number ? 'number' : undefined}>
          {column.text(row)}
        </td>
      ))}
    </tr>
  );
}

/** Mark of a call, as in the chart. */
export function Sign({ row }: { row: CallSummary }) {
  if (row.label !== 'anomaly') return <span class="sign">○</span>;
  return isFaster(row, wording.value.metric) ? <span class="sign faster">▼</span> : <span class="sign slower">▲</span>;
}
