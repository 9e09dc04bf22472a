import { STREAM_ORDERS, STREAM_STATES, type StreamOrder, type StreamState } from '../shared/address/model/view';
import { losses } from './model/health';
import { digits, exact, plural } from '../shared/units/units';
import { streamsRequest } from '../shared/api/requests';
import { addressOf, follow, go, view } from '../shared/address/address';
import { streams, vitals } from './health';
import { NodeLink } from '../shared/parts/nodelink';
import { Empty, NewOrder, Panel, Reading, useHeld } from '../shared/parts/panel';
import { Table } from '../shared/parts/table';
import type { StreamHealth } from '../shared/api/types';

const ORDER_NAMES: Record<StreamOrder, string> = {
  loss: 'most lost first',
  rank: 'by rank',
  rows: 'most events first',
  largest_step_bytes: 'largest step first',
};

const COLUMNS = [
  { heading: 'rank' },
  { heading: 'node' },
  { heading: 'state' },
  { heading: 'lost' },
  { heading: 'steps', isNumber: true },
  { heading: 'events', isNumber: true },
  { heading: 'trace, MB', isNumber: true },
  { heading: 'largest step, kB', isNumber: true },
];

const orderOf = (rows: readonly StreamHealth[] | null): string => rows?.map((row) => `${row.program}:${row.rank}`).join() ?? '';

/** Streams of the ranks: what was read, and what was lost. */
export function Streams() {
  const answer = streams.value.value;
  const held = useHeld(answer?.streams ?? null, orderOf);
  const { streamOrder, streamState, streamCursor } = view.value;
  held.ask(JSON.stringify([streamOrder, streamState, streamCursor]));
  const actions = (
    <>
      <select
        aria-label="Order of streams"
        value={streamOrder}
        onChange={(event) => go({ streamOrder: event.currentTarget.value as StreamOrder, streamCursor: null })}
      >
        {STREAM_ORDERS.map((order) => (
          <option key={order} value={order}>
            {ORDER_NAMES[order]}
          </option>
        ))}
      </select>
      <select
        aria-label="State of streams"
        value={streamState ?? ''}
        onChange={(event) => go({ streamState: (event.currentTarget.value || null) as StreamState | null, streamCursor: null })}
      >
        <option value="">all states</option>
        {STREAM_STATES.map((state) => (
          <option key={state} value={state}>
            {state}
          </option>
        ))}
      </select>
      <NewOrder held={held} />
      {streamCursor !== null && (
        <button class="quiet" onClick={() => go({ streamCursor: null })}>
          « First
        </button>
      )}
      {answer?.next != null && (
        <button class="quiet" onClick={() => go({ streamCursor: answer.next })}>
          Next ›
        </button>
      )}
    </>
  );
  const summary = answer === null ? '' : `${plural(answer.total, 'stream')}, ${ORDER_NAMES[streamOrder]}.`;
  return (
    <Panel name="streams" title="Streams" summary={summary} actions={actions} hold={held.handlers} asks={{ json: streamsRequest(view.value) }}>
      {streams.error.value !== null ? (
        <Empty>{streams.error.value}</Empty>
      ) : held.shown === null ? (
        <Reading what="streams" rows={vitals.value.value?.sums.streams ?? 0} />
      ) : held.shown.length === 0 ? (
        <Empty>No stream is in this state. Choose another one.</Empty>
      ) : (
        <Table columns={COLUMNS} rows={held.shown.map(cells)} />
      )}
    </Panel>
  );
}

function cells(stream: StreamHealth) {
  const rank = `${stream.program}:${stream.rank}`;
  const calls = { page: 'calls', rank, steps: null, call: null, cursor: null } as const;
  const isWhole = stream.state === 'reading' || stream.state === 'ended';
  return [
    <a href={addressOf(calls)} onClick={(event) => follow(event, calls)} title="Its calls">
      {rank}
    </a>,
    <NodeLink name={stream.node} />,
    <span class={isWhole ? undefined : 'warn'}>{stream.state}</span>,
    <span class={stream.gap_steps > 0 || Object.keys(stream.losses).length > 0 ? 'warn' : undefined}>{losses(stream)}</span>,
    exact(stream.steps),
    exact(stream.rows),
    digits(stream.size_bytes / 1e6),
    digits(stream.largest_step_bytes / 1e3),
  ];
}
