import { useMemo, useState } from 'preact/hooks';
import { callStrip, strips, type Strip } from './model/health';
import { sinceStart, wallClock } from '../shared/units/units';
import { pace, vitals } from './health';
import { hideTip, showTip, spoken } from '../shared/session/page';
import { Empty, Panel } from '../shared/parts/panel';
import { onPage, positionIn } from '../shared/charts/pointer';
import { useSize } from '../shared/charts/size';
import { Table } from '../shared/parts/table';

const STRIP_PX = 56;
const LINE_PX = 32;
const GAP_PX = 20;

interface Drawn {
  times_us: readonly number[];
  strips: readonly Strip[];
}

/** The analysis over time: one line each for events, lag, spool and memory. */
export function OverTime() {
  const history = vitals.value.value?.history ?? [];
  const sums = pace.value.value?.sums ?? [];
  const isFollowed = history.length > 2;
  const drawn = useMemo(() => (isFollowed ? strips(history) : callStrip(sums)), [history, sums]);
  const summary = drawn.strips.map(({ name, values, text }) => `${name}: ${last(values, text)}`).join(', ');
  const isKnown = drawn.times_us.length > 1;
  return (
    <Panel
      name="overtime"
      title="Over time"
      summary={isKnown ? `${summary}.` : 'Not known.'}
      asks={{ json: ['vitals', []] }}
      table={isKnown ? () => <OverTimeTable {...drawn} /> : undefined}
    >
      {isKnown ? <Chart {...drawn} /> : <Empty>Nothing is known over time yet.</Empty>}
      {isKnown && !isFollowed && <p class="unit">Lag, spool and memory are known only for times at which a dashboard followed the run.</p>}
    </Panel>
  );
}

function last(values: Strip['values'], text: Strip['text']): string {
  const value = values[values.length - 1];
  return value == null ? 'unknown' : text(value);
}

function Chart({ times_us, strips }: Drawn) {
  const { element, width } = useSize<HTMLDivElement>();
  const [at, setAt] = useState<number | null>(null);
  const x = (place: number): number => 1 + ((width - 2) * place) / (times_us.length - 1);
  const show = (place: number | null, delay?: number): void => {
    setAt(place);
    if (place === null || element.current === null) return hideTip();
    showTip({ ...onPage(element.current, x(place), GAP_PX), lines: tipOf(times_us, strips, place) }, delay);
  };
  const move = (event: KeyboardEvent): void => {
    const way = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (way === undefined) return event.key === 'Escape' ? show(null) : undefined;
    const next = Math.max(0, Math.min(times_us.length - 1, (at ?? times_us.length - 1 - way) + way));
    show(next, 0);
    spoken.value = tipOf(times_us, strips, next).join(', ');
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div
      ref={element}
      class="overtime-chart"
      tabIndex={0}
      role="application"
      aria-roledescription="line chart"
      aria-label="The analysis over time"
      onPointerMove={(event) => show(Math.round(((positionIn(event).x - 1) / (width - 2)) * (times_us.length - 1)))}
      onPointerLeave={() => show(null)}
      onBlur={() => show(null)}
      onKeyDown={move}
    >
      {width > 0 && (
        <svg width={width} height={strips.length * STRIP_PX} aria-hidden="true">
          {strips.map((strip, row) => (
            <g key={strip.name} transform={`translate(0 ${row * STRIP_PX})`}>
              <text class="strip-name" x={0} y={14}>
                {strip.name}
              </text>
              <text class="strip-value" x={width} y={14}>
                {last(strip.values, strip.text)} at last, at most {strip.text(most(strip))}
              </text>
              <path class="strip-line" d={line(strip, x)} />
              <line class="axis" x1={0} x2={width} y1={STRIP_PX - 3} y2={STRIP_PX - 3} />
            </g>
          ))}
          {at !== null && <line class="strip-at" x1={x(at)} x2={x(at)} y1={0} y2={strips.length * STRIP_PX} />}
        </svg>
      )}
    </div>
  );
}

const most = (strip: Strip): number => strip.values.reduce<number>((highest, value) => Math.max(highest, value ?? 0), 0);

/** Path from zero up, interrupted where a value is unknown. */
function line(strip: Strip, x: (place: number) => number): string {
  const highest = most(strip) || 1;
  let pen = 'M';
  return strip.values
    .map((value, place) => {
      if (value === null) {
        pen = 'M';
        return '';
      }
      const point = `${pen}${x(place).toFixed(1)} ${(GAP_PX + LINE_PX * (1 - value / highest)).toFixed(1)}`;
      pen = 'L';
      return point;
    })
    .join('');
}

function tipOf(times_us: readonly number[], strips: readonly Strip[], place: number): string[] {
  const time_us = times_us[place] as number;
  const values = strips.map(({ name, values, text }) => `${name}: ${values[place] == null ? 'unknown' : text(values[place])}`);
  return [...values, `${sinceStart(time_us - (times_us[0] as number))} after the first`, wallClock(time_us)];
}

function OverTimeTable({ times_us, strips: drawn }: Drawn) {
  const rows = times_us.map((time_us, at) => [wallClock(time_us), ...drawn.map(({ values, text }) => (values[at] == null ? 'unknown' : text(values[at])))]);
  return <Table columns={[{ heading: 'time' }, ...drawn.map(({ name }) => ({ heading: name, isNumber: true }))]} rows={rows.reverse()} />;
}
