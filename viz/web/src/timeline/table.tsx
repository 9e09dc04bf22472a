import type { ComponentChildren } from 'preact';
import { shorten } from '../shared/names/names';
import { ANOMALY, firstEndingFrom, idOf, LAUNCHED, MERGED, OPEN } from './model/spans';
import { nameOf, runtimeOf } from './model/timelinewords';
import { arrowsOf, type Scene, type Spot } from './model/lines';
import { columnUnit, exact, inUnit, plural } from '../shared/units/units';
import type { PublishedFinding } from './model/published';
import type { Range } from '../shared/address/model/ranges';
import { addressOf, follow, view } from '../shared/address/address';
import { timeText } from '../shared/session/clock';
import { select } from './chart';

const MOST_ROWS = 300;

interface Props {
  scene: Scene;
  shown: Range;
  /** Content above the calls. */
  children?: ComponentChildren;
}

/** Calls of the picture as a table, in the order of entry, indented by depth. */
export function SpanTable({ scene, shown, children }: Props) {
  const spots = spotsIn(scene, shown);
  const rows = spots.slice(0, MOST_ROWS);
  const unit = columnUnit(rows.map(runtimeOf));
  return (
    <div class="scroll" tabIndex={0}>
      {children}
      {spots.length > rows.length && (
        <p class="unit">
          The first {exact(rows.length)} of {exact(spots.length)}: zoom in for the others.
        </p>
      )}
      <table class="span-table">
        <thead>
          <tr>
            <th>function</th>
            <th>rank, thread</th>
            <th class="number">calls</th>
            <th>entry</th>
            <th class="number">inclusive, {unit}</th>
            <th class="number">exclusive, {unit}</th>
            <th>call</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((spot) => (
            <Row key={`${spot.line.y} ${spot.at}`} spot={spot} unit={unit} />
          ))}
        </tbody>
      </table>
      <LinkTable scene={scene} shown={shown} />
    </div>
  );
}

/** Findings about published quantities that begin in a range of times, as a table. */
export function PublishedTable({ findings }: { findings: readonly PublishedFinding[] }) {
  if (findings.length === 0) return null;
  return (
    <table class="published-table">
      <caption>{plural(findings.length, 'finding')} in published quantities</caption>
      <thead>
        <tr>
          <th>finding</th>
          <th>began</th>
          <th>what is wrong</th>
        </tr>
      </thead>
      <tbody>
        {findings.map(({ id, sentence, time_us }) => (
          <tr key={id}>
            <td>
              <FindingLink id={id} />
            </td>
            <td>{timeText(time_us)}</td>
            <td>{sentence}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function FindingLink({ id }: { id: string }) {
  const target = { page: 'incident', incident: id, call: null } as const;
  return (
    <a href={addressOf(target)} onClick={(event) => follow(event, target)}>
      ≠ {id}
    </a>
  );
}

const KINDS = ['message', 'message', 'launch'] as const;

/** Messages and launches of the picture, as a table. */
function LinkTable({ scene, shown: [first, last] }: { scene: Scene; shown: Range }) {
  const { positionOf } = scene.axis;
  const arrows = arrowsOf(scene, (position) => position - positionOf(first), positionOf(last) - positionOf(first));
  if (arrows.length === 0) return null;
  const at = (time: number): string => (time < 0 ? 'not known' : timeText(time));
  return (
    <table class="link-table">
      <caption>
        {exact(arrows.length)} messages and launches{arrows.length > MOST_ROWS && `, the first ${MOST_ROWS} of them`}
      </caption>
      <thead>
        <tr>
          <th>what</th>
          <th>from</th>
          <th>to</th>
          <th class="number">how many</th>
          <th class="number">bytes</th>
          <th class="number">tag</th>
          <th>sent, launched</th>
          <th>received, began</th>
        </tr>
      </thead>
      <tbody>
        {arrows.slice(0, MOST_ROWS).map(({ link, rank, isInward }, place) => {
          const own = `${rank}, ${link.thread}`;
          const other =
            link.kind === LAUNCHED
              ? `${rank}, ${link.otherThread}`
              : `${rank.split(':')[0]}:${link.otherRank}${link.otherThread < 0 ? '' : `, ${link.otherThread}`}`;
          return (
            <tr key={place}>
              <td>{KINDS[link.kind]}</td>
              <td>{isInward ? other : own}</td>
              <td>{isInward ? own : other}</td>
              <td class="number">{exact(link.count)}</td>
              <td class="number">{link.kind === LAUNCHED ? '' : exact(link.bytes)}</td>
              <td class="number">{link.kind === LAUNCHED ? '' : link.tag}</td>
              <td>{at(isInward ? link.otherTime : link.time)}</td>
              <td>{at(isInward ? link.time : link.otherTime)}</td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

function Row({ spot, unit }: { spot: Spot; unit: ReturnType<typeof columnUnit> }) {
  const { row, spans } = spot.line;
  const flags = row.flags[spot.at] as number;
  const id = idOf(spans.rank, row, spot.at);
  const exclusive = row.exclusive[spot.at] as number;
  return (
    <tr class={id === view.value.call ? 'selected' : undefined} onClick={() => select(spot)}>
      <td class="name" title={nameOf(spot)} style={{ paddingLeft: `${8 + 12 * row.depth}px` }}>
        {flags & ANOMALY ? '▲ ' : ''}
        {shorten(nameOf(spot), 60).text}
      </td>
      <td>
        {spans.rank}, {row.thread}
      </td>
      <td class="number">{exact(row.count[spot.at] as number)}</td>
      <td>{timeText(row.begin[spot.at] as number)}</td>
      <td class="number">{flags & OPEN ? 'open' : inUnit(runtimeOf(spot), unit)}</td>
      <td class="number">{exclusive < 0 ? '' : inUnit(exclusive, unit)}</td>
      <td>
        {flags & MERGED ? (
          'merged'
        ) : (
          <button class="quiet" onClick={() => select(spot)}>
            {id}
          </button>
        )}
      </td>
    </tr>
  );
}

/** Spans that overlap a range of times, in the order of entry, outer ones first. */
function spotsIn(scene: Scene, [first, last]: Range): Spot[] {
  const found: Spot[] = [];
  for (const line of scene.lines) {
    const { begin, end } = line.row;
    for (let at = firstEndingFrom(end, first); at < begin.length && (begin[at] as number) <= last; at++) found.push({ line, at });
  }
  return found.sort((a, b) => (a.line.row.begin[a.at] as number) - (b.line.row.begin[b.at] as number) || a.line.y - b.line.y);
}
