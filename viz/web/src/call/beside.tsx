import { showCommand } from '../shared/asking/commands';
import { besideRequest } from '../shared/api/functionrequests';
import { useSize } from '../shared/charts/size';
import { duration, percent } from '../shared/units/units';
import { Empty, Panel, Reading } from '../shared/parts/panel';
import { Table } from '../shared/parts/table';
import { NodeLink } from '../shared/parts/nodelink';
import type { Resource } from '../shared/session/resource';
import { zero_us } from '../shared/session/session';
import type { BesideAnswer, CallRecord, NodeBeside } from '../shared/api/types';
import { barsOf, besideText, countsText, ACTIVITIES, gpuCells, WORDS } from './model/beside';

const LANE_PX = 26;
const NAME_PX = 132;
/** Threads that are drawn, those that differ most first; the table has all. */
const MOST_LANES = 8;

/** Activity of the node around the call: its own thread, other threads, and who else ran on its cores. */
export function Beside({ record, beside }: { record: CallRecord; beside: Resource<BesideAnswer> }) {
  const answer = beside.value.value;
  const found = answer?.node ?? null;
  const asks = { json: besideRequest(record.id), command: (directory: string) => showCommand(directory, record.id) };
  return (
    <Panel
      name="beside"
      title="Node activity around the call"
      summary={found === null ? 'No samples.' : `In the time that was lost, its thread: ${besideText(found)}.`}
      actions={<NodeLink name={record.node} window={around(record)} text={`Node ${record.node} at that time`} />}
      asks={asks}
      table={found === null ? undefined : () => <BesideTable found={found} />}
    >
      {found !== null ? (
        <Picture found={found} record={record} />
      ) : answer === null && beside.error.value === null ? (
        <Reading what="the samples of the node" />
      ) : (
        <Empty>There are no samples of this call's thread.</Empty>
      )}
    </Panel>
  );
}

/** Margin on either side of the call on its node's page, as a multiple of the call's length, and at least. */
const AROUND = 4;
const LEAST_AROUND_US = 2_000_000;

/** Times of the call with a margin before and after it, since the run's start. */
function around({ entry_us, exit_us }: CallRecord): [number, number] {
  const margin = Math.max(LEAST_AROUND_US, AROUND * (exit_us - entry_us));
  return [Math.max(0, entry_us - margin - zero_us.value), Math.max(1, (exit_us || entry_us) + margin - zero_us.value)];
}

function Picture({ found, record }: { found: NodeBeside; record: CallRecord }) {
  const { element, width } = useSize<HTMLDivElement>();
  const lanes = found.threads.slice(0, MOST_LANES);
  const at = (time_us: number): number => x((time_us - found.from_us) / (found.to_us - found.from_us));
  const x = (share: number): number => NAME_PX + Math.max(0, width - NAME_PX) * share;
  const end_us = record.exit_us || found.to_us;
  const call = { x: at(record.entry_us), width: Math.max(1, at(end_us) - at(record.entry_us)) };
  return (
    <>
      <p class="beside-words" data-beside>
        In the time that was lost: {besideText(found)}.
      </p>
      <div ref={element} class="beside-chart">
        {width > 0 && (
          <svg width={width} height={lanes.length * LANE_PX} role="img" aria-label="Activity of threads over time; the call is framed">
            {lanes.map((thread, row) => (
              <g key={row} transform={`translate(0 ${row * LANE_PX})`}>
                <text class={thread.is_own ? 'beside-name own' : 'beside-name'} x={0} y={LANE_PX - 8}>
                  {thread.name.length > 18 ? `${thread.name.slice(0, 17)}…` : thread.name}
                  {thread.name.length > 18 && <title>{thread.name}</title>}
                </text>
                {barsOf(thread.looks, found).map((bar, at) => (
                  <rect
                    key={at}
                    class={`beside-bar ${bar.activity}`}
                    x={x(bar.x)}
                    width={Math.max(0.5, x(bar.x + bar.width) - x(bar.x))}
                    y={LANE_PX - 3 - (LANE_PX - 6) * bar.high}
                    height={(LANE_PX - 6) * (bar.high - bar.low)}
                  />
                ))}
                <line class="axis" x1={NAME_PX} x2={width} y1={LANE_PX - 3} y2={LANE_PX - 3} />
              </g>
            ))}
            <rect class="beside-call" x={call.x} width={call.width} y={0.5} height={lanes.length * LANE_PX - 1} />
          </svg>
        )}
      </div>
      <p class="beside-legend">
        {[...ACTIVITIES, 'stopped' as const].map((activity) => (
          <span key={activity}>
            <i class={`beside-key ${activity}`} aria-hidden="true" /> {WORDS[activity]}
          </span>
        ))}
        <span>empty: asleep</span>
        <span>framed: the call, {duration(end_us - record.entry_us)}</span>
      </p>
      <p class="unit">{countsText(found)}</p>
      {found.cores.length > 0 && (
        <Table
          columns={[{ heading: 'core', isNumber: true }, { heading: 'ran meanwhile', isNumber: true }, { heading: 'who' }]}
          rows={found.cores.slice(0, MOST_LANES).map((one) => [String(one.core), duration(one.ran_us), one.by])}
        />
      )}
      {found.gpus.length > 0 && <Table columns={GPU_COLUMNS} rows={found.gpus.map(gpuCells)} />}
    </>
  );
}

const GPU_COLUMNS = ['GPU', 'busy', 'usually busy', 'slowed down', 'usually slowed down', 'other processes'].map((heading) => ({ heading, isNumber: true }));

function BesideTable({ found }: { found: NodeBeside }) {
  const whole = found.times.reduce((sum, one) => sum + one.time_us, 0);
  const own = found.times.map((one) => ['its own thread', one.what, duration(one.time_us), percent(whole > 0 ? one.time_us / whole : 0)]);
  const others = found.cores.map((one) => [one.by, `ran on core ${one.core}`, duration(one.ran_us), percent(whole > 0 ? one.ran_us / whole : 0)]);
  const gpus = found.gpus.map((one) => [`GPU ${one.gpu}`, 'ran kernels', duration(one.busy_share * whole), percent(one.busy_share)]);
  const columns = [{ heading: 'who' }, { heading: 'what' }, { heading: 'time', isNumber: true }, { heading: 'share', isNumber: true }];
  return <Table columns={columns} rows={[...own, ...others, ...gpus]} />;
}
