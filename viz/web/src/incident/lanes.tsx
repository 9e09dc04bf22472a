import { useEffect, useRef, useState } from 'preact/hooks';
import { chainOf, consequenceText } from './model/chain';
import { AXIS, GUTTER, paintScene, RIBBON, type Picture } from '../timeline/timelinepainter';
import { anomaliesOf, arrowAt, arrowsOf, ribbonOf, ROW, spotAt, spotOf, type Arrow, type Spot } from '../timeline/model/lines';
import { arrowLines, spotLines } from '../timeline/model/timelinewords';
import { idOf } from '../timeline/model/spans';
import { roundTicks } from '../shared/charts/model/ticks';
import { onPage, positionIn } from '../shared/charts/pointer';
import { prepare } from '../shared/charts/canvas';
import { useSize } from '../shared/charts/size';
import { columnUnit, inUnit, plural } from '../shared/units/units';
import { incidentRequest } from '../shared/api/requests';
import { showCommand } from '../shared/asking/commands';
import { go } from '../shared/address/address';
import { hideTip, showTip, spoken } from '../shared/session/page';
import { theme } from '../shared/session/theme';
import { wording } from '../calls/calls';
import { SpanTable } from '../timeline/table';
import { Empty, Panel, Reading } from '../shared/parts/panel';
import { lanes, scene, shown, spans, waits, width as pictureWidth, withoutLane } from './incident';
import type { Incident } from '../shared/api/types';

const ARROW_NEAR = 4;
const NOTHING = { spot: null, arrow: null };
/** A delay is short beside a step, whose time would say nothing of it. */
const NO_BANDS = new Map<never, never>();

interface Pointed {
  spot: Spot | null;
  arrow: Arrow | null;
}

/** Timeline of all ranks concerned: the call that lost the time, messages, and waits. */
export function Lanes({ incident, id }: { incident: Incident; id: string }) {
  const unit = columnUnit(relative(incident));
  const summary = `${plural(lanes.value.length, 'rank')} from before the delay until all ranks continued. Arrow keys move along its calls, Enter opens one.`;
  const left = withoutLane.value;
  return (
    <Panel
      name="lanes"
      title={`Ranks concerned, ${unit === 'clock' ? 'h:mm:ss' : unit} from the beginning of the delay`}
      summary={summary}
      actions={
        <>
          {left > 0 && <span class="unit">{plural(left, 'further rank')} not drawn</span>}
          <span class="wait-key">waited</span>
          <span class="unit">hatched: not kept</span>
        </>
      }
      asks={{ json: incidentRequest(id), command: (directory) => showCommand(directory, id) }}
      table={() => <SpanTable scene={scene.value} shown={shown.value} />}
    >
      {spans.error.value !== null ? <Empty>{spans.error.value}</Empty> : <Chart incident={incident} />}
    </Panel>
  );
}

const relative = ({ entry_us }: Incident): number[] => shown.value.map((time) => time - entry_us);

function Chart({ incident }: { incident: Incident }) {
  const { element, width } = useSize<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const picture = useRef<Picture | null>(null);
  const [pointed, setPointed] = useState<Pointed>(NOTHING);
  const height = RIBBON + AXIS + Math.max(ROW, scene.value.height);
  useEffect(() => {
    pictureWidth.value = Math.max(0, width - GUTTER);
  }, [width]);
  // A span of the previous answer is not one of this answer, but the same call may be in it.
  useEffect(() => setPointed(({ spot }) => (spot === null ? NOTHING : { spot: spotOf(scene.value, idAt(spot)), arrow: null })), [scene.value]);
  useEffect(() => {
    if (canvas.current === null || width <= GUTTER) return;
    const made = pictureOf(incident, width, height);
    picture.current = made;
    paintScene(prepare(canvas.current, width, height), made, { ...pointed, chosen: spotOf(scene.value, incident.call_id), brush: null });
  }, [spans.value.value, scene.value, shown.value, waits.value, width, height, theme.value, pointed]);

  const under = (x: number, y: number): Pointed => {
    const now = picture.current;
    if (now === null || x < GUTTER || y < RIBBON) return NOTHING;
    const arrow = arrowAt(now.arrows, x - GUTTER, y - RIBBON, ARROW_NEAR);
    if (arrow !== null) return { spot: null, arrow };
    const perPixel = (now.shown[1] - now.shown[0]) / (now.width - GUTTER);
    return { spot: spotAt(now.scene, y - RIBBON, now.shown[0] + (x - GUTTER) * perPixel, 2 * perPixel), arrow: null };
  };
  const hover = (event: PointerEvent): void => {
    const { x, y } = positionIn(event);
    const hit = under(x, y);
    (event.currentTarget as HTMLElement).style.cursor = hit.spot === null ? 'default' : 'pointer';
    if (hit.spot?.at !== pointed.spot?.at || hit.spot?.line !== pointed.spot?.line || hit.arrow !== pointed.arrow) setPointed(hit);
    const lines = wordsOf(hit);
    if (lines === null) hideTip();
    else showTip({ x: event.clientX, y: event.clientY, lines });
  };
  const open = ({ spot }: Pointed): void => {
    if (spot !== null) go({ page: 'call', call: idAt(spot) });
  };
  const move = (event: KeyboardEvent): void => {
    if (event.key === 'Enter') open(pointed);
    const way = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (way !== undefined) point(neighbour(incident, pointed.spot, way), event.currentTarget as HTMLElement);
    else if (event.key !== 'Enter') return;
    event.preventDefault();
    event.stopPropagation();
  };
  const point = (spot: Spot | null, host: HTMLElement): void => {
    const now = picture.current;
    if (spot === null || now === null) return;
    setPointed({ spot, arrow: null });
    const lines = spotLines(scene.value, spot, wording.value);
    spoken.value = [toldOf(incident, idAt(spot)), ...lines].join(', ');
    const share = ((spot.line.begin[spot.at] as number) - now.shown[0]) / (now.shown[1] - now.shown[0]);
    const x = GUTTER + Math.min(1, Math.max(0, share)) * (now.width - GUTTER);
    showTip({ ...onPage(host, x, RIBBON + spot.line.y + ROW), lines }, 0);
  };
  const leave = (): void => {
    hideTip();
    setPointed(NOTHING);
  };
  return (
    <div
      ref={element}
      class="chart incident-lanes"
      style={{ height: `${height}px` }}
      tabIndex={0}
      role="application"
      aria-roledescription="timeline"
      aria-label={`Timeline of ${lanes.value.map((rank) => `rank ${rank}`).join(', ')}`}
      data-pointed={pointed.spot === null ? '' : idAt(pointed.spot)}
      data-waits={waits.value.length}
      onPointerMove={hover}
      onPointerLeave={leave}
      onClick={(event) => open(under(positionIn(event).x, positionIn(event).y))}
      onKeyDown={move}
      onBlur={leave}
    >
      {spans.value.value === null ? (
        <div class="over">
          <Reading what="the calls of all ranks concerned" />
        </div>
      ) : (
        <canvas ref={canvas} aria-hidden="true" />
      )}
    </div>
  );
}

const idAt = ({ line, at }: Spot): string => idOf(line.spans.rank, line.row, at);

/** Return the next call of the incident: the origin first, then along the chain. */
function neighbour(incident: Incident, from: Spot | null, way: number): Spot | null {
  const ids = [incident.call_id, ...chainOf(incident).map((one) => one.waited.call_id)];
  const spots = ids.map((id) => spotOf(scene.value, id)).filter((spot) => spot !== null);
  const at = from === null ? -1 : spots.findIndex((spot) => idAt(spot) === idAt(from));
  return spots[at < 0 ? 0 : Math.min(spots.length - 1, Math.max(0, at + way))] ?? null;
}

const toldOf = (incident: Incident, id: string): string => {
  const waited = incident.waited.find((one) => one.call_id === id);
  return waited === undefined ? 'origin of the delay' : consequenceText(waited);
};

function wordsOf({ spot, arrow }: Pointed): string[] | null {
  // A click does something else here than on the timeline.
  if (arrow !== null) return arrowLines(arrow, wording.value).slice(0, -1);
  return spot === null ? null : [...spotLines(scene.value, spot, wording.value).slice(0, -1), 'click: everything kept about it'];
}

function pictureOf(incident: Incident, width: number, height: number): Picture {
  const wide = width - GUTTER;
  const [first, last] = shown.value;
  const xOf = (position: number): number => ((position - first) / (last - first)) * wide;
  const unit = columnUnit(relative(incident));
  const times = roundTicks(first - incident.entry_us, last - incident.entry_us, Math.max(2, Math.floor(wide / 110)));
  return {
    scene: scene.value,
    shown: [first, last],
    width,
    height,
    scroll: 0,
    waits: waits.value,
    box: null,
    boxLines: new Set(),
    arrows: arrowsOf(scene.value, xOf, wide),
    ribbon: ribbonOf(anomaliesOf(scene.value), xOf, wide),
    bands: NO_BANDS,
    published: [],
    ticks: times.map((time) => ({ x: xOf(incident.entry_us + time), text: inUnit(time, unit) })),
    programs: wording.value.programs,
    theme: theme.value,
  };
}
