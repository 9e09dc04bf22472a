import { useMemo } from 'preact/hooks';
import { MOST, type Grid } from './model/grid';
import { heatLayout, ranksAt } from './model/heatlayout';
import { heatLines } from './model/heatlines';
import { duration, exact } from '../../shared/units/units';
import { formatRange } from '../../shared/address/model/ranges';
import { view } from '../../shared/address/address';
import { timeText } from '../../shared/session/clock';
import { room } from './grid';
import { spansText } from './heatcells';

/** Rows of the table, the worst cells; more would make the browser slow. */
const MOST_LINES = 500;

const HEADS = {
  worst: 'most anomalies of a rank in a step',
  sum: 'anomalies of all its ranks, about',
  p99: 'anomalies that 99 % of its ranks do not exceed',
} as const;

/** Size of a picture in which no cells are merged. */
const ROOM_PX = 1e6;

/** Cells of the map that are not zero, as a table. */
export function HeatTable({ grid }: { grid: Grid }) {
  const [first, end] = room.value;
  const { measure } = view.value;
  const lines = useMemo(() => heatLines(heatLayout(grid, [first, end], ROOM_PX, ROOM_PX, String), measure), [grid, first, end, measure]);
  return (
    <>
      <table>
        <thead>
          <tr>
            <th>ranks</th>
            <th>steps</th>
            <th class="number">{HEADS[grid.show]}</th>
            <th class="number">{grid.show === 'worst' ? 'most time lost, about' : 'time lost, about'}</th>
            <th>from</th>
          </tr>
        </thead>
        <tbody>
          {lines.slice(0, MOST_LINES).map(({ places, steps, count, lost_us, start_us }) => (
            <tr key={`${places.join()} ${steps.join()}`}>
              <td>{spansText(ranksAt(grid, places))}</td>
              <td>{formatRange(steps)}</td>
              {count === null ? (
                <td colSpan={3}>not analysed: unknown</td>
              ) : (
                <>
                  <td class="number">
                    {exact(count)}
                    {count === MOST ? ' or more' : ''}
                  </td>
                  <td class="number">{duration(Number(lost_us.toPrecision(2)))}</td>
                  <td>{start_us > 0 ? timeText(start_us) : 'unknown'}</td>
                </>
              )}
            </tr>
          ))}
        </tbody>
      </table>
      {lines.length === 0 && <p class="unit">There are no anomalies: all cells are zero.</p>}
      {lines.length > MOST_LINES && (
        <p class="unit">
          The worst {MOST_LINES} of {exact(lines.length)} lines; zoom in for others.
        </p>
      )}
    </>
  );
}
