import { ownCounters, lastValues } from '../shared/names/calls';
import { showCommand } from '../shared/asking/commands';
import { shorten } from '../shared/names/names';
import { bytes, columnUnit, digits, duration, exact, inUnit } from '../shared/units/units';
import { byWait } from './model/waits';
import { callRequest, countersRequest } from '../shared/api/functionrequests';
import { counters } from './call';
import { FunctionLink } from '../shared/parts/functionlink';
import { Listed } from '../shared/parts/listed';
import type { CallRecord, CounterTotals } from '../shared/api/types';

interface Props {
  record: CallRecord;
  normal: CallRecord | null;
}

const asksOf = (record: CallRecord) => ({ json: callRequest(record.id), command: (directory: string) => showCommand(directory, record.id) });

/** Messages of the window, the longest waits first. */
export function Messages({ record }: { record: CallRecord }) {
  const waited = byWait(record);
  const waitUnit = columnUnit(waited.map((one) => one.wait_us ?? 0));
  const unit = columnUnit(record.messages.map((message) => message.time_us - record.entry_us));
  const rows = waited.map(({ message, place, wait_us }) => [
    message.kind === 'SEND' ? `to ${message.destination}` : `from ${message.source}`,
    bytes(message.size_bytes),
    String(message.tag),
    wait_us === null ? '–' : inUnit(wait_us, waitUnit),
    inUnit(message.time_us - record.entry_us, unit),
    <FunctionLink name={place} program={record.program} text={shorten(place, 24).text} />,
  ]);
  const places = new Map(record.window.map((call) => [call.id, call.function]));
  const entered = record.collectives.map((one) => {
    const place = places.get(one.call_id) ?? one.call_id;
    const link = <FunctionLink name={place} program={record.program} text={shorten(place, 24).text} />;
    return ['whole communicator', bytes(one.size_bytes), `operation ${one.number}`, '–', inUnit(one.time_us - record.entry_us, unit), link];
  });
  const columns = [
    ['rank', false],
    ['size', true],
    ['tag', true],
    [`waited, ${waitUnit}`, true],
    [`at, ${unit}`, true],
    ['in', false],
  ] as const;
  const left = record.left_out > 0 && <span class="unit">{exact(record.left_out)} messages and counters left out (limit)</span>;
  return (
    <Listed
      name="messages"
      title="Messages by wait"
      columns={columns}
      rows={[...rows, ...entered]}
      nothing="No messages were sent or received in the window."
      actions={left}
      asks={asksOf(record)}
    />
  );
}

/** Usual value of a counter on the call's rank: mean and standard deviation over the whole run. */
function usualText(found: CounterTotals | undefined): string {
  if (found === undefined || found.values === 0) return 'unknown';
  return found.values === 1 ? `${digits(found.mean)} once` : `${digits(found.mean)} ± ${digits(found.stddev)}`;
}

const totals = (): Map<string, CounterTotals> => new Map(counters.value.value?.counters.map((counter) => [counter.counter, counter]));

/** Counters of the window and metrics of the call, beside those of the normal call and of the rank. */
export function Counters({ record, normal }: Props) {
  const usual = totals();
  const unit = columnUnit(record.counters.map((counter) => counter.time_us - record.entry_us));
  const names = new Map(record.window.map((call) => [call.id, call.function]));
  const ofNormal = normal === null ? new Map<string, number>() : ownCounters(normal);
  const metricsOfNormal = lastValues(normal?.metrics ?? []);
  const other = (values: ReadonlyMap<string, number>, counter: string): string => (values.has(counter) ? exact(values.get(counter) as number) : '–');
  const rows = [
    ...record.metrics.map(({ counter, value }) => [counter, exact(value), other(metricsOfNormal, counter), usualText(usual.get(counter)), 'rise', 'the call']),
    ...record.counters.map(({ counter, value, time_us, call_id }) => {
      const place = names.get(call_id);
      const own = call_id === record.id ? other(ofNormal, counter) : '–';
      const link = place === undefined ? call_id : <FunctionLink name={place} program={record.program} text={shorten(place, 24).text} />;
      return [counter, exact(value), own, usualText(usual.get(counter)), inUnit(time_us - record.entry_us, unit), link];
    }),
  ];
  const columns = [
    ['counter', false],
    ['value', true],
    ['normal call', true],
    ['usual on this rank', true],
    [`at, ${unit}`, true],
    ['in', false],
  ] as const;
  return (
    <Listed
      name="counters"
      title="Counters"
      columns={columns}
      rows={rows}
      nothing="No counters were recorded in the window."
      asks={{ json: countersRequest(record.program, record.rank), hasSql: true, command: asksOf(record).command }}
    />
  );
}

/** State of the node in the step of the call, in that of the normal call, and usually. */
export function NodeState({ record, normal }: Props) {
  const usual = totals();
  const [now, then] = [lastValues(record.node_state), lastValues(normal?.node_state ?? [])];
  const rows = [...now].map(([counter, value]) => [
    counter.replace(/^monitoring: /, ''),
    exact(value),
    then.has(counter) ? exact(then.get(counter) as number) : 'unknown',
    usualText(usual.get(counter)),
  ]);
  const columns = [
    ['in the step', false],
    ['now', true],
    ['normal call', true],
    ['usual', true],
  ] as const;
  const step = <span class="unit">step of {duration(record.step_end_us - record.step_start_us)}</span>;
  return (
    <Listed
      name="node"
      title={record.node ? `Node ${record.node}` : 'Node'}
      columns={columns}
      rows={rows}
      nothing="The state of the node was not recorded in this step."
      actions={step}
      asks={asksOf(record)}
    />
  );
}
