import { go, view } from '../../shared/address/address';
import { SHOWN, type Shown } from '../../shared/address/model/view';
import { plural } from '../../shared/units/units';
import { measureName } from '../measurechoice';
import { rowsShow } from './grid';
import type { Bins } from './model/bins';
import type { Grid } from './model/grid';

const NAMES: Readonly<Record<Shown, string>> = { worst: 'the worst', sum: 'the sum', p99: '99th percentile' };

interface Props {
  grid: Grid;
  size: { ranks: number; steps: number };
  bins: Bins;
  toCome: boolean;
}

/** Legend: the colours, the ranks and steps of a cell, and what a cell shows of them, which can be chosen. */
export function HeatLegend({ grid, size, bins, toCome }: Props) {
  const isGrouped = size.ranks > 1 || grid.show !== 'worst' || view.value.open !== null;
  return (
    <p class="heat-legend">
      <span data-cell-size title={grid.nodes.length > 0 ? 'Rows are of whole nodes' : undefined}>
        cell = {plural(size.ranks, 'rank')} × {plural(size.steps, 'step')}
        {!isGrouped && size.steps > 1 && ', shows the worst'}
        {isGrouped && ', shows'}
      </span>
      {isGrouped && (
        <select
          aria-label="What a row shows of its ranks"
          title="What a row shows of its ranks, each with its worst step. A click on the number of a row, or O, opens it."
          value={rowsShow.value}
          onChange={(event) => go({ rows: event.currentTarget.value as Shown }, 'replace')}
        >
          {SHOWN.map((one) => (
            <option key={one} value={one}>
              {NAMES[one]}
            </option>
          ))}
        </select>
      )}
      <span class="heat-bins" aria-label={`${measureName(view.value.measure)} of ${size.ranks > 1 ? 'a row' : 'one rank'} in one step`}>
        <span>
          <i class="heat-zero" />0
        </span>
        {bins.names.map(
          (name, bin) =>
            name !== '' && (
              <span key={name}>
                <i style={{ background: `var(--heat-${bin})` }} />
                {name}
              </span>
            ),
        )}
        <span>
          <i class="heat-unknown" />
          not analysed
        </span>
        {toCome && (
          <span>
            <i class="heat-to-come" />
            to come
          </span>
        )}
      </span>
    </p>
  );
}
