import { AXES, AXIS_KINDS, scaleOf, type Axis } from '../shared/address/model/axes';
import { callAt, callsAnswer } from './model/callpoints';
import { queryCommand } from '../shared/asking/commands';
import { pointsRequest } from '../shared/api/requests';
import { go, view } from '../shared/address/address';
import { filters, points } from './calls';
import { programs, zero_us } from '../shared/session/session';
import { Empty, Panel, Reading, useHeld } from '../shared/parts/panel';
import { CallChart, WHOLE } from './callchart';
import { CallTable } from './calltable';
import { Nothing } from './nothing';
import type { Points } from '../shared/api/types';

/** Rows of the table that replaces the chart; the list below has all calls. */
const TWIN_ROWS = 30;

const keyOf = (found: Points | null): string => (found === null ? '' : JSON.stringify([found.anomalies, found.normal_calls, found.columns.begin_row]));

/** Chart of the calls that match the filters. */
export function Scatter() {
  const held = useHeld(points.value.value, keyOf);
  held.ask(filters.value ?? '');
  const found = held.shown;
  const { x, y } = view.value;
  const actions = (
    <>
      <AxisChoice of="x" />
      <AxisChoice of="y" />
      {held.waits && (
        <button class="quiet" onClick={held.update}>
          new calls · update
        </button>
      )}
      {(view.value.xRange !== null || view.value.yRange !== null) && (
        <button class="quiet" onClick={() => go(WHOLE)} title="Show all calls again (double click)">
          zoomed → all
        </button>
      )}
      <span class="unit">▲ slower ▼ faster ○ normal · larger: more time lost</span>
    </>
  );
  const summary =
    found === null
      ? ''
      : `${callsAnswer(found, view.value, programs.value)} Arrow keys move from mark to mark; Enter selects a call, and Enter again opens its timeline; W, S and 0 zoom.`;
  const asks = { json: pointsRequest(view.value, zero_us.value), command: (directory: string) => queryCommand(directory, { ...view.value, cursor: null }) };
  const isEmpty = found !== null && found.columns.rank.length === 0;
  return (
    <Panel name="callscatter" title="Calls" summary={summary} actions={actions} hold={held.handlers} table={() => <Twin points={found} />} asks={asks}>
      {found === null ? (
        points.error.value === null ? (
          <Reading what="calls" />
        ) : (
          <Empty>{points.error.value}</Empty>
        )
      ) : isEmpty ? (
        <Nothing />
      ) : (
        <CallChart points={found} label={`Calls: ${AXIS_KINDS[y].title} by ${AXIS_KINDS[x].title}`} />
      )}
    </Panel>
  );
}

function AxisChoice({ of }: { of: 'x' | 'y' }) {
  const axis = view.value[of];
  const chosen = of === 'x' ? view.value.xScale : view.value.yScale;
  const scale = scaleOf(axis, chosen);
  const name = of.toUpperCase();
  const change = (to: Axis): void => go(of === 'x' ? { x: to, xScale: null, xRange: null } : { y: to, yScale: null, yRange: null });
  const other = scale === 'log' ? 'linear' : 'log';
  return (
    <span class="axis-choice">
      <label class="inline">
        {name}
        <select value={axis} aria-label={`${name} axis`} onChange={(event) => change(event.currentTarget.value as Axis)}>
          {AXES.map((one) => (
            <option key={one} value={one}>
              {one === 'gpu' ? 'is GPU' : one}
            </option>
          ))}
        </select>
      </label>
      {AXIS_KINDS[axis].scale !== null && (
        <button
          class="quiet"
          aria-label={`${name} axis: ${scale}; change to ${other}`}
          title={`Change to ${other}`}
          onClick={() => go(of === 'x' ? { xScale: other, xRange: null } : { yScale: other, yRange: null })}
        >
          {scale}
        </button>
      )}
    </span>
  );
}

/** The chart as a table of its worst calls. */
function Twin({ points: found }: { points: Points | null }) {
  if (found === null) return null;
  const rows = found.columns.rank.slice(0, TWIN_ROWS).map((_, at) => callAt(found, at));
  return (
    <div class="scroll" tabIndex={0}>
      <CallTable rows={rows} />
    </div>
  );
}
