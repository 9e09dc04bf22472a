import { useMemo } from 'preact/hooks';
import { treeLines } from './model/flamelayout';
import { nameOf } from './model/flamewords';
import { frames, matches, zoomed, zoomTo } from './flame';
import { FunctionLink } from '../shared/parts/functionlink';
import { columnUnit, exact, inUnit, percent } from '../shared/units/units';
import type { Frame } from './model/frames';

/** Lines of the table, the widest frames; more would make the browser slow. */
const MOST_LINES = 300;

/** The frames as a tree. */
export function FlameTable() {
  const all = frames.value;
  const at = zoomed.value;
  const { lines, left } = useMemo(() => treeLines(all, at, MOST_LINES), [all, at]);
  const top = all[at] as Frame;
  // A clock cannot show what is short beside the whole.
  const most = columnUnit([top.total_us]);
  const unit = most === 'clock' ? 's' : most;
  return (
    <>
      <table>
        <thead>
          <tr>
            <th>caller › function</th>
            <th class="number">inclusive, {unit}</th>
            <th class="number">share</th>
            <th class="number">exclusive, {unit}</th>
            <th class="number">calls</th>
            <th class="number">▲</th>
            <th>zoom</th>
          </tr>
        </thead>
        <tbody>
          {lines.map(({ index, depth }) => {
            const frame = all[index] as Frame;
            return (
              <tr key={frame.id} class={matches.value?.flags[index] === 1 ? 'selected' : undefined} data-frame={frame.id}>
                <td class="name" style={{ paddingLeft: `${8 + 12 * Math.min(depth, 20)}px` }}>
                  {frame.name === '' ? nameOf(frame, 40) : <FunctionLink name={frame.name} program={frame.program} />}
                </td>
                <td class="number">{inUnit(frame.total_us, unit)}</td>
                <td class="number">{percent(frame.total_us / top.total_us)}</td>
                <td class="number">{inUnit(frame.own_us, unit)}</td>
                <td class="number">{frame.calls > 0 ? exact(frame.calls) : ''}</td>
                <td class="number">{exact(frame.anomalies)}</td>
                <td>
                  {index !== at && (
                    <button class="quiet" onClick={() => zoomTo(index)} aria-label={`Zoom to ${nameOf(frame, 40)}`}>
                      zoom
                    </button>
                  )}
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
      {left > 0 && <p class="unit">{exact(left)} narrower call paths are not listed: zoom in to see them.</p>}
    </>
  );
}
