import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { prepare } from '../shared/charts/canvas';
import { AXIS, boxes, paintTimeline, ROW, type Scale, type Tick } from './windowpainter';
import { commonTimes, timelineOf, type Bar, type Timeline } from './model/callwindow';
import { placedName, wrapped } from '../shared/names/names';
import { showCommand } from '../shared/asking/commands';
import { callRequest } from '../shared/api/functionrequests';
import { columnUnit, duration, inUnit } from '../shared/units/units';
import { hideTip, showTip, spoken } from '../shared/session/page';
import { theme } from '../shared/session/theme';
import { FunctionLink } from '../shared/parts/functionlink';
import { Panel } from '../shared/parts/panel';
import { onPage, positionIn } from '../shared/charts/pointer';
import { useSize } from '../shared/charts/size';
import type { CallRecord } from '../shared/api/types';
import { roundTicks } from '../shared/charts/model/ticks';

interface Props {
  record: CallRecord;
  normal: CallRecord | null;
}

/** The call and the normal call, each among its neighbours, on one scale and aligned at their entries. */
export function CallTimeline({ record, normal }: Props) {
  const own = useMemo(() => timelineOf(record), [record]);
  const twin = useMemo(() => normal && timelineOf(normal), [normal]);
  const { before, after } = commonTimes(own, record.entry_us, twin, normal?.entry_us ?? 0);
  const unit = columnUnit([before, after]);
  const summary = `${own.bars.length} calls around the call and its callers; hatched where calls were analysed but not kept.`;
  const asks = { json: callRequest(record.id), command: (directory: string) => showCommand(directory, record.id) };
  return (
    <Panel
      name="twin"
      title={`Call and normal call, ${unit === 'clock' ? 'h:mm:ss' : unit} from the entry`}
      summary={summary}
      actions={<span class="unit">hatched: analysed but not kept</span>}
      asks={asks}
      table={() => <WindowTable record={record} />}
    >
      <Strips record={record} normal={normal} own={own} twin={twin} />
    </Panel>
  );
}

function Strips({ record, normal, own, twin }: Props & { own: Timeline; twin: Timeline | null }) {
  const { element, width } = useSize<HTMLDivElement>();
  const { before, after } = commonTimes(own, record.entry_us, twin, normal?.entry_us ?? 0);
  const usPerPixel = (before + after) / Math.max(1, width);
  const unit = columnUnit([before, after]);
  const ticksFor = (entry: number): Tick[] =>
    roundTicks(-before, after, Math.max(2, Math.floor(width / 90))).map((time) => ({ time: entry + time, text: inUnit(time, unit) }));
  return (
    <div ref={element} class="timelines">
      {width > 0 && (
        <>
          <Strip name="this call" timeline={own} scale={{ start: record.entry_us - before, usPerPixel }} ticks={ticksFor(record.entry_us)} width={width} />
          {twin && normal ? (
            <Strip
              name={`◎ normal call ${normal.id}`}
              timeline={twin}
              scale={{ start: normal.entry_us - before, usPerPixel }}
              ticks={ticksFor(normal.entry_us)}
              width={width}
            />
          ) : (
            <p class="unit">No normal call of this function was recorded for comparison.</p>
          )}
        </>
      )}
    </div>
  );
}

interface StripProps {
  name: string;
  timeline: Timeline;
  scale: Scale;
  ticks: readonly Tick[];
  width: number;
}

function Strip({ name, timeline, scale, ticks, width }: StripProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [focused, setFocused] = useState<Bar | null>(null);
  const height = timeline.depths.length * ROW + AXIS;
  useEffect(() => {
    if (canvas.current) paintTimeline(prepare(canvas.current, width, height), timeline, scale, ticks, width, theme.value, focused);
  }, [timeline, scale.start, scale.usPerPixel, width, theme.value, focused]);

  const show = (bar: Bar | null, delay?: number): void => {
    setFocused(bar);
    const host = canvas.current;
    const shown = bar && boxes(timeline, scale, width).find((one) => one.bar === bar);
    if (!host || !shown) return hideTip();
    showTip({ ...onPage(host, shown.x + Math.min(shown.width, 40), shown.y + ROW - 4), lines: barTip(shown.bar) }, delay);
  };
  const hover = (event: PointerEvent): void => {
    const { x, y } = positionIn(event);
    const under = boxes(timeline, scale, width).filter((one) => x >= one.x - 1 && x <= one.x + one.width + 1 && y >= one.y && y < one.y + ROW);
    show(under[under.length - 1]?.bar ?? null);
  };
  const move = (event: KeyboardEvent): void => {
    const way = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (way === undefined) return;
    const at = focused ? timeline.bars.indexOf(focused) + way : timeline.bars.findIndex((bar) => bar.isSelf);
    const next = timeline.bars[Math.min(timeline.bars.length - 1, Math.max(0, at))] ?? null;
    show(next, 0);
    if (next) spoken.value = barTip(next).join(', ');
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div class="strip">
      <h3>
        {name}
        {timeline.callersLeftOut > 0 && ` · ${timeline.callersLeftOut} outer callers not drawn`}
      </h3>
      <div
        class="chart"
        style={{ height: `${height}px` }}
        tabIndex={0}
        role="application"
        aria-roledescription="timeline"
        aria-label={`Timeline of ${name}`}
        onPointerMove={hover}
        onPointerLeave={() => show(null)}
        onKeyDown={move}
        onBlur={() => show(null)}
      >
        <canvas ref={canvas} aria-hidden="true" />
      </div>
    </div>
  );
}

function barTip(bar: Bar): string[] {
  const lines = [wrapped(placedName(bar.function)), bar.open ? 'had not ended when it was recorded' : `inclusive ${duration(bar.end - bar.start)}`];
  if (bar.isAnomaly) lines.push('▲ abnormal');
  return [...lines, `call ${bar.id}`];
}

/** The window as a table, in the order of entry, indented by depth. */
function WindowTable({ record }: { record: CallRecord }) {
  const unit = columnUnit(record.window.map((call) => Math.max(Math.abs(call.entry_us - record.entry_us), call.exit_us - call.entry_us)));
  const least = Math.min(...record.window.map((call) => call.depth));
  return (
    <table>
      <thead>
        <tr>
          <th>function</th>
          <th class="number">entry, {unit}</th>
          <th class="number">inclusive, {unit}</th>
          <th>call</th>
        </tr>
      </thead>
      <tbody>
        {record.window.map((call) => (
          <tr key={call.id} class={call.id === record.id ? 'selected' : undefined}>
            <td class="name" title={call.function} style={{ paddingLeft: `${8 + 16 * (call.depth - least)}px` }}>
              {call.is_anomaly && '▲ '}
              <FunctionLink name={call.function} program={record.program} />
            </td>
            <td class="number">{inUnit(call.entry_us - record.entry_us, unit)}</td>
            <td class="number">{call.exit_us === 0 ? 'open' : inUnit(call.exit_us - call.entry_us, unit)}</td>
            <td>{call.id}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
