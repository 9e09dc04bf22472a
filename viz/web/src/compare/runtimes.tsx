import { scaleLog } from 'd3-scale';
import { barsOf, change, decisive, shiftSummary, type Bar } from './model/comparison';
import { duration } from '../shared/units/units';
import { Empty, Panel } from '../shared/parts/panel';
import { useSize } from '../shared/charts/size';
import { logTicks } from '../shared/charts/model/ticks';
import type { Shift } from '../shared/api/types';

const AXIS = 20;
const MARGIN = 8;

/** Distribution of a function's runtimes in both runs. */
export function Runtimes({ shift, name }: { shift: Shift | undefined; name: string }) {
  const bars = shift?.distribution ? barsOf(shift.distribution) : [];
  const actions = (
    <span class="legend">
      <span class="legend-item">
        <span class="swatch before" /> before
      </span>
      <span class="legend-item">
        <span class="swatch after" /> after
      </span>
    </span>
  );
  return (
    <Panel name="runtimes" title={name || 'Runtimes'} summary={shift ? shiftSummary(shift) : ''} actions={actions} table={() => <RuntimeTable bars={bars} />}>
      {bars.length === 0 ? (
        <Empty>The distribution of its runtimes was not stored.</Empty>
      ) : (
        <>
          <p class="unit">
            {shift && `${change(decisive(shift).raw)}: ${shiftSummary(shift)}`} Runtimes that fewer than one call in a thousand has are left out.
          </p>
          <Histogram bars={bars} />
        </>
      )}
    </Panel>
  );
}

function Histogram({ bars }: { bars: readonly Bar[] }) {
  const { element, width, height } = useSize<HTMLDivElement>();
  const scale = scaleLog(extentOf(bars), [MARGIN, width - MARGIN]);
  // On a logarithmic axis buckets differ in width, so areas stand for shares of the calls.
  const density = (bar: Bar, share: number): number => share / (Math.log(bar.upper_us) - Math.log(bar.lower_us));
  const highest = Math.max(...bars.map((bar) => Math.max(density(bar, bar.before), density(bar, bar.after))));
  const bottom = height - AXIS;
  const y = (value: number): number => bottom - (value / highest) * (bottom - MARGIN);
  const outline = bars.map((bar) => `V${y(density(bar, bar.after))}H${scale(bar.upper_us)}`).join('');
  return (
    <div ref={element} class="histogram">
      {width > 0 && (
        <svg width={width} height={height} aria-hidden="true">
          {bars.map((bar) => (
            <rect
              key={bar.lower_us}
              class="bar-before"
              x={scale(bar.lower_us)}
              width={Math.max(1, scale(bar.upper_us) - scale(bar.lower_us))}
              y={y(density(bar, bar.before))}
              height={bottom - y(density(bar, bar.before))}
            />
          ))}
          <path class="bar-after" d={`M${scale((bars[0] as Bar).lower_us)} ${bottom}${outline}V${bottom}`} />
          <line class="axis" x1={0} x2={width} y1={bottom} y2={bottom} />
          {ticks(bars, width, scale).map((us) => (
            <text key={us} class="tick-text" x={scale(us)} y={height - 5} text-anchor="middle">
              {duration(us)}
            </text>
          ))}
        </svg>
      )}
    </div>
  );
}

function extentOf(bars: readonly Bar[]): [low: number, high: number] {
  return [(bars[0] as Bar).lower_us, (bars[bars.length - 1] as Bar).upper_us];
}

/** Ticks that do not overlap the labels at both ends. */
function ticks(bars: readonly Bar[], width: number, scale: (us: number) => number): number[] {
  return logTicks(...extentOf(bars), width / 72).filter((us) => scale(us) > 24 && scale(us) < width - 24);
}

function RuntimeTable({ bars }: { bars: readonly Bar[] }) {
  const share = (value: number): string => `${(100 * value).toFixed(1)} %`;
  return (
    <table>
      <thead>
        <tr>
          {['from', 'to', 'calls before', 'calls after'].map((heading) => (
            <th key={heading} class="number">
              {heading}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {bars.map((bar) => (
          <tr key={bar.lower_us}>
            <td class="number">{duration(bar.lower_us)}</td>
            <td class="number">{duration(bar.upper_us)}</td>
            <td class="number">{share(bar.before)}</td>
            <td class="number">{share(bar.after)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
