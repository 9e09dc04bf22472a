import { useEffect, useMemo, useRef } from 'preact/hooks';
import { prepare } from '../shared/charts/canvas';
import { AXIS, boxes, paintTimeline, ROW } from '../call/windowpainter';
import { timelineOf } from '../call/model/callwindow';
import { shorten } from '../shared/names/names';
import { columnUnit, duration, inUnit } from '../shared/units/units';
import { open } from './calls';
import { hideTip, showTip } from '../shared/session/page';
import { theme } from '../shared/session/theme';
import { positionIn } from '../shared/charts/pointer';
import { useSize } from '../shared/charts/size';
import type { CallRecord } from '../shared/api/types';
import { roundTicks } from '../shared/charts/model/ticks';

/** Small timeline of the call and those recorded around it; a click opens the timeline. */
export function MiniTimeline({ record }: { record: CallRecord }) {
  const { element, width } = useSize<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const timeline = useMemo(() => timelineOf(record), [record]);
  const scale = { start: timeline.start, usPerPixel: (timeline.end - timeline.start) / Math.max(1, width) };
  const height = timeline.depths.length * ROW + AXIS;
  const unit = columnUnit([timeline.start - record.entry_us, timeline.end - record.entry_us]);
  useEffect(() => {
    if (!canvas.current || width === 0) return;
    const times = roundTicks(timeline.start - record.entry_us, timeline.end - record.entry_us, Math.max(2, width / 80));
    const ticks = times.map((time) => ({ time: record.entry_us + time, text: inUnit(time, unit) }));
    const own = timeline.bars.find((bar) => bar.isSelf) ?? null;
    paintTimeline(prepare(canvas.current, width, height), timeline, scale, ticks, width, theme.value, own);
  }, [timeline, width, theme.value]);

  const hover = (event: PointerEvent): void => {
    const { x, y } = positionIn(event);
    const under = boxes(timeline, scale, width).filter((one) => x >= one.x - 1 && x <= one.x + one.width + 1 && y >= one.y && y < one.y + ROW);
    const bar = under[under.length - 1]?.bar;
    if (bar === undefined) return hideTip();
    const took = bar.open ? 'had not ended when it was recorded' : `inclusive ${duration(bar.end - bar.start)}`;
    showTip({ x: event.clientX, y: event.clientY, lines: [bar.function.slice(0, 240), took, `call ${bar.id}`, 'click: timeline'] });
  };
  return (
    <div>
      <p class="unit">{unit} from its entry; hatched: not kept</p>
      <div
        ref={element}
        class="chart mini"
        style={{ height: `${height}px` }}
        tabIndex={0}
        role="button"
        aria-label={`Timeline of ${shorten(record.function, 28).text}: ${timeline.bars.length} calls around it, ${unit} from its entry`}
        onPointerMove={hover}
        onPointerLeave={hideTip}
        onClick={() => open(record.id)}
        onKeyDown={(event) => event.key === 'Enter' && open(record.id)}
      >
        <canvas ref={canvas} aria-hidden="true" />
      </div>
    </div>
  );
}
