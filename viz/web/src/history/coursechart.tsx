import { changesOf, stretchesOf, valueText } from './model/course';
import { rangeOf } from '../shared/charts/model/curves';
import { MarkChart, type ChartMark } from '../shared/charts/markchart';
import { useSize } from '../shared/charts/size';
import { wallClock } from '../shared/units/units';
import type { SeriesHistory, SeriesQuantity } from '../shared/api/types';

const LEFT = 64;
const RIGHT = 10;
const TOP = 10;
const PLOT = 84;
const FOOT = 30;

interface Props {
  history: SeriesHistory;
  quantity: SeriesQuantity;
  /** Index of the run whose page this is. */
  own: number | null;
  /** Called with a run that is clicked. */
  open: (at: number) => void;
}

/** One quantity over the runs: a dot each, the median of each stretch, and lines where it changed, or the version did. */
export function CourseChart({ history, quantity, own, open }: Props) {
  const { element, width } = useSize<HTMLDivElement>();
  const runs = history.runs;
  const [least, most] = rangeOf([{ name: quantity.name, times_us: [], values: quantity.values }]);
  const step = (width - LEFT - RIGHT) / Math.max(1, runs.length);
  const x = (at: number): number => LEFT + step * (at + 0.5);
  const y = (value: number): number => TOP + PLOT * (1 - (value - least) / (most - least));
  const changes = changesOf(history, quantity.name);
  const marks = runs.map((run, at): ChartMark => {
    const found = changes.find((change) => change.at === at);
    const lines = [
      `${valueText(quantity, quantity.values[at])}${run.is_good ? '' : ' (left out)'}`,
      run.name,
      `${wallClock(run.started_us).slice(0, 16)} UTC`,
      ...run.version,
    ];
    return { x: x(at), lines: found === undefined ? lines : [found.sentence, ...lines] };
  });
  const foot = TOP + PLOT;
  return (
    <div ref={element} class="course-chart">
      {width > 0 && (
        <MarkChart kind="line chart" label={quantity.label} width={width} height={foot + FOOT} marks={marks} open={open}>
          {[least, most].map((value) => (
            <g key={value}>
              <line class="base faint" x1={LEFT} x2={width} y1={y(value)} y2={y(value)} />
              <text class="tick-text" x={LEFT - 4} y={y(value) + 4} text-anchor="end">
                {valueText(quantity, value)}
              </text>
            </g>
          ))}
          {[0, runs.length - 1].map((at) => (
            <text
              key={at === 0 ? 'first' : 'last'}
              class="tick-text"
              x={at === 0 ? LEFT : width - RIGHT}
              y={foot + 25}
              text-anchor={at === 0 ? 'start' : 'end'}
            >
              {(at === 0 || runs.length > 1) && wallClock(runs[at]?.started_us ?? 0).slice(0, 10)}
            </text>
          ))}
          {changes.map((change) => (
            <line
              key={change.at}
              class={`change ${change.is_slower ? 'slower' : 'faster'}`}
              x1={x(change.at) - step / 2}
              x2={x(change.at) - step / 2}
              y1={TOP}
              y2={foot}
              data-change={change.at}
            />
          ))}
          {stretchesOf(history, quantity).map(({ from, to, middle }) => (
            <line key={from} class="middle" x1={x(from) - step / 2} x2={x(to - 1) + step / 2} y1={y(middle)} y2={y(middle)} />
          ))}
          {quantity.values.map((value, at) =>
            value === null ? null : (
              <circle key={at} class={at === own ? 'run own' : runs[at]?.is_good ? 'run' : 'run left-out'} cx={x(at)} cy={y(value)} r={at === own ? 4 : 2.2} />
            ),
          )}
          {runs.map((run, at) => (run.version.length === 0 ? null : <path key={run.id} class="version" d={`M${x(at) - 1.5} ${foot + 3}h3v9h-3z`} />))}
        </MarkChart>
      )}
    </div>
  );
}
