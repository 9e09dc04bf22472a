import { useMemo } from 'preact/hooks';
import { change, decisive, VERDICT_WORDS } from './model/comparison';
import { depthOf, shiftLines, shiftsOf } from './model/differential';
import { paths } from './comparison';
import { Chart } from '../flame/chart';
import { Find, searched } from '../flame/find';
import { framesOf, indexOfFrame, rowsOf, type Frame } from '../flame/model/frames';
import { treeLines } from '../flame/model/flamelayout';
import { boxLines, nameOf } from '../flame/model/flamewords';
import { go, view } from '../shared/address/address';
import { Empty, Panel, Reading } from '../shared/parts/panel';
import { Table } from '../shared/parts/table';
import { run } from '../shared/session/session';
import { duration, exact } from '../shared/units/units';
import type { Shift } from '../shared/api/types';

/** Lines of the table; more would make the browser slow. */
const MOST_LINES = 300;

/** This run's call paths as a flame graph: widths show the time now, colours the change. */
export function Differential({ shifts }: { shifts: readonly Shift[] }) {
  const known = paths.value.value;
  const programs = run.value.value?.programs ?? {};
  const frames = useMemo(() => framesOf(known?.paths ?? [], { weight: 'time', name: '', program: null, metric: 'exclusive' }), [known]);
  const changes = useMemo(() => shiftsOf(frames, shifts, programs), [frames, shifts, programs]);
  const zoomed = indexOfFrame(frames, view.value.frame);
  const matches = useMemo(() => searched(frames, zoomed), [frames, zoomed, view.value.find]);
  const isEmpty = (frames[0]?.total_us ?? 0) <= 0;
  const shiftAt = (index: number): Shift | null => changes[index] ?? null;
  return (
    <div class="differential-place" style={{ '--depth': rowsOf(frames) }}>
      <Panel
        name="differential"
        title="Call paths"
        summary="Width is time in calls of this run. Arrow keys move from frame to frame, Enter zooms to one, Backspace to its caller, 0 shows all."
        actions={
          <>
            <Find frames={frames} zoomed={zoomed} matches={matches} />
            <span class="unit">
              Width: time now. Colour: ▲ slower, ▼ faster per call, deepest from a factor of 2 on. Call paths that no longer occur are not shown.
            </span>
          </>
        }
        table={isEmpty ? undefined : () => <Lines frames={frames} zoomed={zoomed} shiftAt={shiftAt} />}
      >
        {known === null ? (
          paths.error.value === null ? (
            <Reading what="call paths" />
          ) : (
            <Empty>{paths.error.value}</Empty>
          )
        ) : isEmpty ? (
          <Empty>This run has no runtimes by call path.</Empty>
        ) : (
          <Chart
            label="Flame graph of the time in calls of this run, coloured by the change per call"
            frames={frames}
            zoomed={zoomed}
            matches={matches}
            zoomTo={(index) => go({ frame: index === 0 ? '' : (frames[index] as Frame).id })}
            lines={(box) => [...boxLines(frames, box, zoomed, 'time'), ...(box.merged > 0 ? [] : shiftLines(shiftAt(box.index), frames[box.index] as Frame))]}
            look={(index) => depthOf(shiftAt(index))}
          />
        )}
      </Panel>
    </div>
  );
}

const COLUMNS = [
  { heading: 'caller › function' },
  { heading: 'time now', isNumber: true },
  { heading: 'calls', isNumber: true },
  { heading: 'a call before', isNumber: true },
  { heading: 'now', isNumber: true },
  { heading: 'change', isNumber: true },
  { heading: 'verdict' },
];

function Lines({ frames, zoomed, shiftAt }: { frames: readonly Frame[]; zoomed: number; shiftAt: (index: number) => Shift | null }) {
  const { lines, left } = treeLines(frames, zoomed, MOST_LINES);
  const rows = lines.map(({ index, depth }) => {
    const frame = frames[index] as Frame;
    const shift = shiftAt(index);
    const name = (
      <span title={frame.name} style={{ paddingLeft: `${12 * Math.min(depth, 20)}px` }}>
        {nameOf(frame, 40)}
      </span>
    );
    const known = shift === null ? ['', '', '', ''] : [...shift.mean_us.map(duration), change(decisive(shift).effect), VERDICT_WORDS[decisive(shift).verdict]];
    return [name, duration(frame.total_us), frame.calls > 0 ? exact(frame.calls) : '', ...known];
  });
  return (
    <>
      <Table columns={COLUMNS} rows={rows} />
      {left > 0 && <p class="unit">{exact(left)} narrower call paths are not listed: zoom in to see them.</p>}
    </>
  );
}
