import { view } from '../../shared/address/address';
import { plural } from '../../shared/units/units';
import { measureName } from '../measurechoice';
import type { Bins } from './model/bins';

/** Legend: the colours, the ranks and steps of a cell, and that a cell shows the worst of them. */
export function HeatLegend({ size, bins, toCome }: { size: { ranks: number; steps: number }; bins: Bins; toCome: boolean }) {
  return (
    <p class="heat-legend">
      <span data-cell-size>
        row = {plural(size.ranks, 'rank')}, column = {plural(size.steps, 'step')}
        {size.ranks > 1 || size.steps > 1 ? ', shows the worst' : ''}
      </span>
      <span class="heat-bins" aria-label={`${measureName(view.value.measure)} of one rank in one step`}>
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
