import { gaps } from './model/history';
import type { Series } from './model/steplayout';
import { columnUnit, exact, inUnit } from '../../shared/units/units';
import { formatRange, type Range } from '../../shared/address/model/ranges';
import { timeText } from '../../shared/session/clock';
import type { StepRow } from '../../shared/api/types';

/** Rows of the table, the newest steps; more would make the browser slow. */
const MOST_ROWS = 500;

/** Values of the chart as a table, the newest step first, with gaps in their places. */
export function StepTable({ series, zoom }: { series: readonly Series[]; zoom: Range | null }) {
  const lines = series.flatMap((one) => linesOf(one, zoom));
  lines.sort((a, b) => b.step - a.step);
  const unit = columnUnit(lines.map((line) => line.row?.[5] ?? 0));
  return (
    <>
      <table>
        <thead>
          <tr>
            <th>rank</th>
            <th class="number">step</th>
            <th class="number">anomalies</th>
            <th class="number">calls</th>
            <th class="number">lost, {unit}</th>
            <th>analysed</th>
          </tr>
        </thead>
        <tbody>
          {lines.slice(0, MOST_ROWS).map(({ rank, step, row, gap }) => (
            <tr key={`${rank} ${step}`}>
              <td>{rank}</td>
              <td class="number">{gap ? formatRange(gap) : exact(step)}</td>
              {row ? (
                <>
                  <td class="number">{exact(row[4])}</td>
                  <td class="number">{exact(row[3])}</td>
                  <td class="number">{inUnit(row[5], unit)}</td>
                  <td>{analysed(row)}</td>
                </>
              ) : (
                <td colSpan={4}>not analysed: unknown</td>
              )}
            </tr>
          ))}
        </tbody>
      </table>
      {lines.length > MOST_ROWS && (
        <p class="unit">
          The newest {MOST_ROWS} of {exact(lines.length)} lines; zoom in for others.
        </p>
      )}
    </>
  );
}

/** Time that was analysed as one step. */
export function analysed(row: StepRow): string {
  return `${timeText(row[1])} to ${timeText(row[2])}`;
}

interface Line {
  rank: string;
  step: number;
  row?: StepRow;
  gap?: Range;
}

function linesOf({ rank, rows, from }: Series, zoom: Range | null): Line[] {
  const inside = (step: number): boolean => zoom === null || (step >= zoom[0] && step <= zoom[1]);
  return [...rows.map((row): Line => ({ rank, step: row[0], row })), ...gaps(rows, from).map((gap): Line => ({ rank, step: gap[1], gap }))].filter((line) =>
    inside(line.step),
  );
}
