import { useMemo } from 'preact/hooks';
import { shortenAll, type ShortName } from '../../lib/names';
import type { FunctionRow } from '../../lib/types';
import { columnUnit, duration, exact, inUnit } from '../../lib/units';
import { go, view } from '../../state/address';
import { hideTip, showTip } from '../../state/page';
import { functions } from '../../state/overview';
import { Empty, Panel, Reading, useHeld } from '../parts/panel';

const orderOf = (rows: readonly FunctionRow[] | null): string => rows?.map((row) => `${row.program} ${row.name}`).join('\n') ?? '';

/** Functions by time lost. */
export function Functions() {
  const value = functions.value.value;
  const abnormal = useMemo(() => value?.functions.filter((row) => row.anomalies > 0) ?? null, [value]);
  const held = useHeld(abnormal, orderOf);
  const rows = held.shown ?? [];
  const names = useMemo(() => shortenAll(rows.map((row) => row.name), 26), [rows]);
  const unit = columnUnit(rows.map((row) => row.severity_us));
  const most = Math.max(0, ...rows.map((row) => row.severity_us));
  const first = rows[0];
  const summary = first ? `${names.get(first.name)?.text} lost most time: ${duration(first.severity_us)}.` : 'None with anomalies.';
  const actions = (
    <>
      <span class="unit">lost, {unit === 'clock' ? 'h:mm:ss' : unit}</span>
      {held.waits && (
        <button class="quiet" onClick={held.update}>
          order changed · update
        </button>
      )}
    </>
  );
  return (
    <Panel name="functions" title="Worst functions" summary={summary} actions={actions} hold={held.handlers} table={() => <FunctionTable rows={rows} names={names} />}>
      {value === null ? (
        <Reading what="functions" />
      ) : rows.length === 0 ? (
        <Empty>{value.total === 0 ? 'No function statistics yet.' : `No anomalies in ${exact(value.total)} functions.`}</Empty>
      ) : (
        <ol class="function-list">
          {rows.map((row) => (
            <li key={`${row.program} ${row.name}`}>
              <FunctionBar row={row} text={names.get(row.name)?.text ?? row.name} tag={names.get(row.name)?.tag ?? ''} value={inUnit(row.severity_us, unit)} share={row.severity_us / most} />
            </li>
          ))}
        </ol>
      )}
    </Panel>
  );
}

interface BarProps {
  row: FunctionRow;
  text: string;
  tag: string;
  value: string;
  share: number;
}

function FunctionBar({ row, text, tag, value, share }: BarProps) {
  const chosen = view.value.function === row.name;
  const show = (element: HTMLElement, delay?: number): void => {
    const box = element.getBoundingClientRect();
    showTip({ x: box.left + 8, y: box.bottom - 8, lines: functionTip(row, chosen) }, delay);
  };
  return (
    <button
      class={chosen ? 'function-bar selected' : 'function-bar'}
      data-function={row.name}
      aria-pressed={chosen}
      onClick={() => go({ function: chosen ? '' : row.name, cursor: null })}
      onPointerEnter={(event) => show(event.currentTarget)}
      onPointerLeave={hideTip}
      onFocus={(event) => show(event.currentTarget, 0)}
      onBlur={hideTip}
    >
      <span class="function-name">
        {text} {tag && <em>{tag}</em>}
      </span>
      <span class="function-value">{value}</span>
      <span class="rank-track">
        <span class="rank-fill" style={{ width: `${Math.max(1, share * 100)}%` }} />
      </span>
    </button>
  );
}

/** A name of any length on at most three lines. */
export function wrapped(name: string, most = 240): string {
  return name.length <= most ? name : `${name.slice(0, most - 1)}…`;
}

function functionTip(row: FunctionRow, chosen: boolean): string[] {
  return [
    wrapped(row.name),
    `time lost: ${duration(row.severity_us)}`,
    `${exact(row.anomalies)} anomalies in ${exact(row.calls)} calls`,
    `exclusive: ${duration(row.exclusive_mean_us)} ± ${duration(row.exclusive_stddev_us)} on average`,
    `inclusive: ${duration(row.inclusive_mean_us)} on average, at most ${duration(row.inclusive_maximum_us)}`,
    chosen ? 'click: all functions' : 'click: its calls in the table',
  ];
}

function FunctionTable({ rows, names }: { rows: readonly FunctionRow[]; names: ReadonlyMap<string, ShortName> }) {
  const unit = columnUnit(rows.map((row) => row.severity_us));
  return (
    <table>
      <thead>
        <tr>
          <th>function</th>
          <th class="number">lost, {unit}</th>
          <th class="number">anomalies</th>
          <th class="number">calls</th>
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={`${row.program} ${row.name}`}>
            <td class="name" title={row.name}>
              {names.get(row.name)?.text}
            </td>
            <td class="number">{inUnit(row.severity_us, unit)}</td>
            <td class="number">{exact(row.anomalies)}</td>
            <td class="number">{exact(row.calls)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
