import { laneText, meansOf, moved, zoomed, type Lane } from './model/nodelanes';
import { coresRequest, gpusRequest, threadsRequest } from '../shared/api/noderequests';
import { exact, percent, sinceStart } from '../shared/units/units';
import { go, view } from '../shared/address/address';
import type { Resource } from '../shared/session/resource';
import { zero_us } from '../shared/session/session';
import { Empty, Panel, Reading } from '../shared/parts/panel';
import { Table } from '../shared/parts/table';
import { LaneChart } from './lanechart';
import { show, shown, whole } from './node';

interface Props {
  kind: 'threads' | 'cores' | 'gpus';
  title: string;
  parts: readonly (readonly [look: string, text: string])[];
  rest: string;
  lanes: readonly Lane[] | undefined;
  answer: Resource<{ ok: boolean; next?: string | null; total?: number }>;
}

/** Lanes of threads, cores or GPUs over time, piece by piece where there are many. */
export function LanePanel({ kind, title, parts, rest, lanes, answer }: Props) {
  const times = shown.value;
  const found = answer.value.value;
  const from = kind === 'gpus' ? 0 : Number((kind === 'threads' ? view.value.threadsFrom : view.value.coresFrom) ?? 0);
  const total = found?.total ?? 0;
  const piece = total > (lanes?.length ?? 0) ? `${exact(from + 1)} to ${exact(from + (lanes?.length ?? 0))} of ${exact(total)}` : '';
  const request = { threads: threadsRequest, cores: coresRequest, gpus: gpusRequest }[kind];
  const turn = (cursor: string | null): void => go(kind === 'threads' ? { threadsFrom: cursor } : { coresFrom: cursor });
  const back = Math.max(0, from - Math.max(1, lanes?.length ?? 1, 16));
  return (
    <Panel
      name={`node-${kind}`}
      title={piece === '' ? title : `${title}, ${piece}`}
      summary={(lanes ?? []).map((lane) => `${lane.name}: ${meanText(lane)}`).join('; ')}
      actions={
        <>
          <Zoom />
          {(from > 0 || found?.next) && (
            <span class="turn">
              <button class="quiet" disabled={from === 0} aria-label={`${title}: previous`} onClick={() => turn(back === 0 ? null : String(back))}>
                ‹
              </button>
              <button class="quiet" disabled={!found?.next} aria-label={`${title}: next`} onClick={() => turn(found?.next ?? null)}>
                ›
              </button>
            </span>
          )}
        </>
      }
      asks={times === null ? {} : { json: request(view.value.node, times, from === 0 ? null : String(from)) }}
      table={lanes === undefined ? undefined : () => <LaneTable lanes={lanes} parts={parts} rest={rest} />}
    >
      {answer.error.value !== null ? (
        <Empty>{answer.error.value}</Empty>
      ) : lanes === undefined || times === null ? (
        <Reading what={kind} />
      ) : lanes.length === 0 ? (
        <Empty>Nothing was sampled in this time.</Empty>
      ) : (
        <>
          <LaneChart lanes={lanes} times={times} label={title} />
          <p class="beside-legend">
            {parts.map(([look, text]) => (
              <span key={look}>
                <i class={`beside-key ${look}`} aria-hidden="true" /> {text}
              </span>
            ))}
            <span>empty: {rest}</span>
            <span>hatched: not sampled</span>
          </p>
        </>
      )}
    </Panel>
  );
}

function meanText(lane: Lane): string {
  const means = meansOf(lane);
  if (means.some((mean) => mean === null)) return 'not sampled';
  return laneText({ ...lane, parts: lane.parts.map((part, at) => ({ ...part, shares: [means[at] ?? null] })) }, 0);
}

/** The time that all charts of the page show. */
function Zoom() {
  const [times, all] = [shown.value, whole.value];
  if (times === null || all === null) return null;
  const isWhole = view.value.window === null;
  const button = (text: string, title: string, act: () => void, disabled = false) => (
    <button class="quiet" aria-label={title} title={title} disabled={disabled} onClick={act}>
      {text}
    </button>
  );
  return (
    <span class="turn" data-shown={times.join()}>
      <span class="unit">
        {sinceStart(times[0] - zero_us.value)} to {sinceStart(times[1] - zero_us.value)}
      </span>
      {button('+', 'Zoom in', () => show(zoomed(times, all, 0.5)))}
      {button('−', 'Zoom out', () => show(zoomed(times, all, 2)), isWhole)}
      {button('‹', 'Earlier', () => show(moved(times, all, -0.5)), isWhole)}
      {button('›', 'Later', () => show(moved(times, all, 0.5)), isWhole)}
      {button('all', 'All times', () => show(null), isWhole)}
    </span>
  );
}

/** Means over the time that is shown. */
function LaneTable({ lanes, parts, rest }: Pick<Props, 'parts' | 'rest'> & { lanes: readonly Lane[] }) {
  const columns = [{ heading: 'what' }, ...[...parts.map(([, text]) => text), rest].map((heading) => ({ heading, isNumber: true }))];
  const rows = lanes.map((lane) => {
    const means = meansOf(lane);
    const left = means.some((mean) => mean === null) ? null : 1 - means.reduce<number>((sum, mean) => sum + (mean ?? 0), 0);
    return [lane.title, ...[...means, left].map(percent)];
  });
  return <Table columns={columns} rows={rows} />;
}
