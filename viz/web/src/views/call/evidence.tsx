import type { ComponentChildren } from 'preact';
import { useMemo } from 'preact/hooks';
import { shortenAll } from '../../lib/names';
import type { CallRecord, CounterValue } from '../../lib/types';
import { bytes, columnUnit, duration, exact, inUnit } from '../../lib/units';
import { Empty, Panel } from '../parts/panel';

/** Call stack, the call itself first. */
export function Stack({ record }: { record: CallRecord }) {
  const names = useMemo(() => shortenAll(record.call_stack.map((frame) => frame.function), 44), [record]);
  return (
    <Panel name="stack" title="Call stack" summary={`${record.call_stack.length} calls deep.`}>
      <ol class="stack">
        {record.call_stack.map((frame, depth) => {
          const name = names.get(frame.function);
          return (
            <li key={frame.id} class={depth === 0 ? 'selected' : undefined} title={frame.function}>
              <span class={frame.is_anomaly ? 'stack-mark abnormal' : 'stack-mark'}>{frame.is_anomaly ? '▲' : '·'}</span>
              <span class="stack-name">{name?.text}</span>
              <span class="unit">{name?.file && `${name.file}:${name.line}`}</span>
              <span class="stack-time">{frame.exit_us === 0 ? 'open' : duration(frame.exit_us - frame.entry_us)}</span>
            </li>
          );
        })}
      </ol>
    </Panel>
  );
}

export function Listed({ name, title, columns, rows, nothing }: { name: string; title: string; columns: readonly (readonly [string, boolean])[]; rows: readonly (readonly string[])[]; nothing: ComponentChildren }) {
  return (
    <Panel name={name} title={title} summary={`${rows.length} lines.`}>
      {rows.length === 0 ? (
        <Empty>{nothing}</Empty>
      ) : (
        <div class="scroll">
          <table>
            <thead>
              <tr>
                {columns.map(([heading, number]) => (
                  <th key={heading} class={number ? 'number' : undefined}>
                    {heading}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {rows.map((row, index) => (
                <tr key={index}>
                  {row.map((cell, at) => (
                    <td key={at} class={columns[at]?.[1] ? 'number' : undefined}>
                      {cell}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Panel>
  );
}

/** Function in which something of the window happened. */
function placeOf(record: CallRecord): (callId: string) => string {
  const names = shortenAll(record.window.map((call) => call.function), 24);
  const byId = new Map(record.window.map((call) => [call.id, names.get(call.function)?.text ?? call.function]));
  return (id) => byId.get(id) ?? id;
}

export function Messages({ record }: { record: CallRecord }) {
  const place = placeOf(record);
  const unit = columnUnit(record.messages.map((message) => message.time_us - record.entry_us));
  const rows = record.messages.map((message) => [
    `${message.kind === 'SEND' ? 'to' : 'from'} ${message.kind === 'SEND' ? message.destination : message.source}`,
    bytes(message.size_bytes),
    String(message.tag),
    inUnit(message.time_us - record.entry_us, unit),
    place(message.call_id),
  ]);
  const columns = [['rank', false], ['size', true], ['tag', true], [`at, ${unit}`, true], ['in', false]] as const;
  return <Listed name="messages" title="Messages in the window" columns={columns} rows={rows} nothing="No message was sent or received in the window." />;
}

export function Counters({ record }: { record: CallRecord }) {
  const place = placeOf(record);
  const unit = columnUnit(record.counters.map((counter) => counter.time_us - record.entry_us));
  const rows = record.counters.map((counter) => [counter.counter, exact(counter.value), inUnit(counter.time_us - record.entry_us, unit), place(counter.call_id)]);
  const columns = [['counter', false], ['value', true], [`at, ${unit}`, true], ['in', false]] as const;
  return <Listed name="counters" title="Counters in the window" columns={columns} rows={rows} nothing="No counter was recorded in the window." />;
}

/** Watched counters of the step, beside those of the normal call's. */
export function NodeState({ record, normal }: { record: CallRecord; normal: CallRecord | null }) {
  const last = (values: readonly CounterValue[]): Map<string, number> => new Map(values.map((counter) => [counter.counter, counter.value]));
  const [now, then] = [last(record.node_state), last(normal?.node_state ?? [])];
  const rows = [...now].map(([counter, value]) => [
    counter.replace(/^monitoring: /, ''),
    exact(value),
    then.has(counter) ? exact(then.get(counter) as number) : 'unknown',
  ]);
  const columns = [['in the step', false], ['this call', true], ['normal call', true]] as const;
  return <Listed name="node" title={record.node ? `Node ${record.node}` : 'Node'} columns={columns} rows={rows} nothing="No state of the node was recorded in this step." />;
}
