import { callAnswer, ranked } from '../../lib/answer';
import type { CallDetail, CallRecord } from '../../lib/types';
import { count, duration, exact, score, sinceStart, wallClock } from '../../lib/units';
import { addressOf, view } from '../../state/address';
import { detail } from '../../state/calls';
import { programs, run, zero_us } from '../../state/session';
import { CallTimeline } from './calltimeline';
import { Counters, Messages, NodeState, Stack } from './evidence';
import { wrapped } from '../overview/functions';
import { Triangle } from '../parts/mark';
import { Empty, Reading } from '../parts/panel';
import { follow } from '../frame/statusbar';

/** Everything kept about one call: what, how much, in what company, and a normal call beside it. */
export function Detail() {
  const found = detail.value.value;
  if (detail.error.value !== null) {
    const up = { page: 'overview', call: null } as const;
    return (
      <main class="detail">
        <Empty>
          {detail.error.value}{' '}
          <a href={addressOf(up)} onClick={(event) => follow(event, up)}>
            Back to the run
          </a>
        </Empty>
      </main>
    );
  }
  if (found === null) {
    return (
      <main class="detail">
        <Reading what={`call ${view.value.call}`} />
      </main>
    );
  }
  return <Page found={found} />;
}

function Page({ found }: { found: CallDetail }) {
  const { record, normal } = found;
  const metric = run.value.value?.config.metric ?? 'exclusive';
  return (
    <main class="detail">
      <h1 class="answer">
        {record.label === 'anomaly' && <Triangle />} {callAnswer(record, metric, programs.value)}
      </h1>
      <Facts record={record} normal={normal} />
      <CallTimeline record={record} normal={normal} />
      <div class="evidence">
        <Stack record={record} />
        <Messages record={record} />
        <Counters record={record} />
        <NodeState record={record} normal={normal} />
      </div>
    </main>
  );
}

/** The call's numbers beside those of the recorded normal call. */
function Facts({ record, normal }: { record: CallRecord; normal: CallRecord | null }) {
  const rows: [string, (call: CallRecord) => string][] = [
    ['inclusive', (call) => duration(call.inclusive_us)],
    ['exclusive', (call) => duration(call.exclusive_us)],
    ['usual then', (call) => `${duration(call.expected_us)} ± ${duration(call.spread_us)}`],
    ['calls known then', (call) => count(call.seen)],
    ['score', (call) => score(call.score, call.detector)],
    ['children', (call) => exact(call.children)],
    ['messages', (call) => exact(call.messages_count)],
    ['rank, thread', (call) => `${ranked(`${call.program}:${call.rank}`, programs.value)}, ${call.thread}`],
    ['step', (call) => exact(call.step)],
    ['entry', (call) => sinceStart(call.entry_us - zero_us.value)],
  ];
  return (
    <section class="panel facts" aria-label="Numbers">
      <p class="full-name" title={record.function}>
        <code>{wrapped(record.function, 400)}</code>
      </p>
      <table>
        <thead>
          <tr>
            <th />
            {rows.map(([name]) => (
              <th key={name} class="number">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          <tr>
            <th scope="row">
              {record.label === 'anomaly' && <Triangle />} <code>{record.id}</code>
            </th>
            {rows.map(([name, text]) => (
              <td key={name} class="number">
                {text(record)}
              </td>
            ))}
          </tr>
          <tr>
            <th scope="row">
              ◎ {normal ? <code>{normal.id}</code> : 'normal call'}
            </th>
            {normal ? (
              rows.map(([name, text]) => (
                <td key={name} class="number">
                  {text(normal)}
                </td>
              ))
            ) : (
              <td colSpan={rows.length}>No normal call of this function was recorded.</td>
            )}
          </tr>
        </tbody>
      </table>
      <p class="unit">
        {wallClock(record.entry_us)}
        {record.node && ` · node ${record.node}`} · {record.detector} · {record.is_final ? 'record complete' : 'record still growing'}
        {record.left_out > 0 && ` · ${exact(record.left_out)} messages and counters left out (limit)`}
      </p>
    </section>
  );
}
