import { meansOf, meanText, restOf, type Lane, type NodeChart } from './model/nodechart';
import { moved, zoomed } from './model/zoom';
import { lanesRequest } from '../shared/api/noderequests';
import { exact, percent, sinceStart } from '../shared/units/units';
import { go, view } from '../shared/address/address';
import { zero_us } from '../shared/session/session';
import { Empty, Panel, Reading } from '../shared/parts/panel';
import { Table } from '../shared/parts/table';
import { LaneChart } from './lanechart';
import { show, shown, whole, type AskedChart } from './node';

/** Least number of lanes that the button for the previous ones goes back by. */
const LEAST_BACK = 16;

/** Panel of one chart of the node, page by page where it has many lanes. */
export function LanePanel({ chart, answer }: AskedChart) {
  const { name, title } = chart;
  const times = shown.value;
  const found = answer.value.value;
  const lanes = found === null ? undefined : chart.lanesOf(found);
  if (chart.isHiddenWhenEmpty && (lanes ?? []).length === 0) return null;
  const from = Number(view.value.lanesFrom[name] ?? 0);
  const total = found?.total ?? 0;
  const piece = total > (lanes?.length ?? 0) ? `${exact(from + 1)} to ${exact(from + (lanes?.length ?? 0))} of ${exact(total)}` : '';
  const turn = (cursor: string | null): void => go({ lanesFrom: { ...view.value.lanesFrom, [name]: cursor } });
  const back = Math.max(0, from - Math.max(LEAST_BACK, lanes?.length ?? 0));
  return (
    <Panel
      name={`node-${name}`}
      title={piece === '' ? title : `${title}, ${piece}`}
      summary={(lanes ?? []).map((lane) => `${lane.name}: ${meanText(chart, lane)}`).join('; ')}
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
      asks={times === null ? {} : { json: lanesRequest(view.value.node, name, times, from === 0 ? null : String(from)) }}
      table={lanes === undefined ? undefined : () => <LaneTable chart={chart} lanes={lanes} />}
    >
      {answer.error.value !== null ? (
        <Empty>{answer.error.value}</Empty>
      ) : lanes === undefined || times === null ? (
        <Reading what={name} />
      ) : lanes.length === 0 ? (
        <Empty>Nothing was sampled in this time.</Empty>
      ) : (
        <>
          <LaneChart chart={chart} lanes={lanes} times={times} />
          <p class="beside-legend">
            {chart.bands.map(({ colour, text }) => (
              <span key={colour}>
                <i class={`beside-key ${colour}`} aria-hidden="true" /> {text}
              </span>
            ))}
            <span>empty: {chart.rest}</span>
            <span>hatched: not sampled</span>
          </p>
        </>
      )}
    </Panel>
  );
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

/** Mean shares over the time that is shown. */
function LaneTable({ chart, lanes }: { chart: NodeChart; lanes: readonly Lane[] }) {
  const shares = [...chart.bands.map(({ text }) => text), chart.rest].map((heading) => ({ heading, isNumber: true }));
  const rows = lanes.map((lane) => {
    const means = meansOf(lane);
    return [lane.title, ...[...means, restOf(means)].map(percent)];
  });
  return <Table columns={[{ heading: 'what' }, ...shares]} rows={rows} />;
}
