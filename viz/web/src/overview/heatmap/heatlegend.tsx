import { go, view } from '../../shared/address/address';
import { SHOWN, type Shown } from '../../shared/address/model/view';
import { plural } from '../../shared/units/units';
import { measureName } from '../measurechoice';
import { rowsShow } from './grid';
import type { Bins } from './model/bins';
import type { Grid } from './model/grid';

const NAMES: Readonly<Record<Shown, string>> = { worst: 'the worst of them', sum: 'their sum', p99: 'the worst but 1 %' };

interface Props {
  grid: Grid;
  size: { ranks: number; steps: number };
  bins: Bins;
  toCome: boolean;
}

/** Legend: the colours, the ranks and steps of a cell, and what a cell shows of them, which can be chosen. */
export function HeatLegend({ grid, size, bins, toCome }: Props) {
  const isGrouped = size.ranks > 1 || grid.show !== 'worst' || view.value.open !== null;
  const ofSteps = size.steps > 1 ? (isGrouped ? ', the worst of its steps' : ', shows the worst') : '';
  return (
    <p class="heat-legend">
      <span data-cell-size>
        row = {plural(size.ranks, 'rank')}
        {grid.nodes.length > 0 && ', whole nodes'}
        {isGrouped && (
          <select
            aria-label="What a row shows of its ranks"
            title="A row of several ranks opens by a click on its number, or by O"
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
        , column = {plural(size.steps, 'step')}
        {ofSteps}
      </span>
      <span class="heat-bins" aria-label={`${measureName(view.value.measure)} of ${size.ranks > 1 ? 'a row' : 'one rank'} in one step`}>
        <span>
          <i class="heat-zero" />0
        </span>
        {bins.names.map((name, bin) => (
          <span key={name}>
            <i style={{ background: `var(--heat-${bin})` }} />
            {name}
          </span>
        ))}
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
