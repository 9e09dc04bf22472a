import { boxesOf, type Box } from './model/tasks';
import { columnUnit, duration, inUnit, plural } from '../shared/units/units';
import { workflowRequest } from '../shared/api/workflowrequests';
import { published } from './workflow';
import { roundTicks } from '../shared/charts/model/ticks';
import { RowChart } from '../shared/charts/rowchart';
import { useSize } from '../shared/charts/size';
import { Empty, Panel } from '../shared/parts/panel';
import { Table } from '../shared/parts/table';
import { cut, LEFT } from './tasks';

const ROW_PX = 24;
const BOX_PX = 12;
const AXIS_PX = 20;

/** Run times of programs, by number of cores. */
export function ScalesPanel() {
  const boxes = boxesOf(published.value.value?.tasks ?? []);
  const unit = columnUnit(boxes.map((box) => box.most_us));
  return (
    <Panel
      name="scales"
      title="Run time by scale"
      summary={boxes.map((box) => `${nameOf(box)}: ${duration(box.median_us)}`).join(', ') || 'No task has ended.'}
      actions={boxes.length > 0 && <span class="unit">{`${unit === 'clock' ? 'h:mm:ss' : unit} · minimum, quartiles and maximum of the completed runs`}</span>}
      asks={{ json: workflowRequest }}
      table={boxes.length === 0 ? undefined : () => <BoxTable boxes={boxes} />}
    >
      {boxes.length === 0 ? <Empty>No task has completed yet.</Empty> : <Chart boxes={boxes} />}
    </Panel>
  );
}

const nameOf = ({ program, cores }: Box): string => (cores === 0 ? program : `${program} × ${cores}`);

function Chart({ boxes }: { boxes: readonly Box[] }) {
  const { element, width } = useSize<HTMLDivElement>();
  const most = boxes.reduce((highest, box) => Math.max(highest, box.most_us), 1);
  const x = (us: number): number => LEFT + (us / most) * (width - LEFT - 12);
  const height = boxes.length * ROW_PX;
  const unit = columnUnit([most]);
  return (
    <div ref={element} class="scales-chart">
      {width > 0 && (
        <RowChart kind="box plot" label="Run times by program and cores" width={width} height={height + AXIS_PX} rows={boxes.map(tip)} row_px={ROW_PX}>
          {boxes.map((box, at) => {
            const middle = at * ROW_PX + ROW_PX / 2;
            return (
              <g key={nameOf(box)} data-box={nameOf(box)}>
                <text class="row-name" x={LEFT - 8} y={middle + 4} text-anchor="end">
                  {cut(nameOf(box), 20)}
                </text>
                <path
                  class="whisker"
                  d={`M${x(box.least_us)} ${middle}H${x(box.most_us)}M${x(box.least_us)} ${middle - 4}v8M${x(box.most_us)} ${middle - 4}v8`}
                />
                <rect
                  class="box"
                  x={x(box.quarter_us)}
                  y={middle - BOX_PX / 2}
                  width={Math.max(1, x(box.threeQuarters_us) - x(box.quarter_us))}
                  height={BOX_PX}
                />
                <line class="median" x1={x(box.median_us)} x2={x(box.median_us)} y1={middle - BOX_PX / 2} y2={middle + BOX_PX / 2} />
              </g>
            );
          })}
          <line class="base" x1={LEFT} x2={width} y1={height + 0.5} y2={height + 0.5} />
          {roundTicks(0, most, Math.max(2, Math.floor((width - LEFT) / 90))).map((at) => (
            <text key={at} class="tick-text" x={x(at)} y={height + 15} text-anchor="middle">
              {inUnit(at, unit)}
            </text>
          ))}
        </RowChart>
      )}
    </div>
  );
}

const tip = (box: Box): string[] => [
  nameOf(box) + (box.cores === 0 ? '' : box.cores === 1 ? ' core' : ' cores'),
  `median ${duration(box.median_us)} of ${plural(box.runs, 'run')}`,
  `half of them ${duration(box.quarter_us)} to ${duration(box.threeQuarters_us)}`,
  `all ${duration(box.least_us)} to ${duration(box.most_us)}`,
];

function BoxTable({ boxes }: { boxes: readonly Box[] }) {
  const numbers = ['cores', 'runs', 'minimum', 'first quartile', 'median', 'third quartile', 'maximum'].map((heading) => ({ heading, isNumber: true }));
  const times = (box: Box): string[] => [box.least_us, box.quarter_us, box.median_us, box.threeQuarters_us, box.most_us].map(duration);
  return <Table columns={[{ heading: 'program' }, ...numbers]} rows={boxes.map((box) => [box.program, box.cores || '', box.runs, ...times(box)])} />;
}
