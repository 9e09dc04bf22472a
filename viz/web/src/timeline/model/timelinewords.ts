/** Texts of a timeline: tooltips, the first sentence of the page, names of lanes. */

import { shorten } from '../../shared/names/names';
import { ANOMALY, DOUBTFUL, judgedOf, LAUNCHED, MERGED, OPEN, RECEIVED, type RankSpans } from './spans';
import { parentOf, type Arrow, type Lane, type RibbonMark, type Scene, type Spot } from './lines';
import type { Range } from '../../shared/address/model/ranges';
import { bytes, duration, exact, fixed, plural, ratio, score, sinceStart } from '../../shared/units/units';
import type { Judged, RankKey } from '../../shared/api/types';
import { openEnd, type Wording } from '../../calls/model/callpoints';

export const numbered = (rank: RankKey, programs: number): string => (programs > 1 ? rank : rank.split(':')[1]) as string;

export const nameOf = ({ line, at }: Spot): string => line.spans.functions[line.row.function[at] as number] as string;

export const runtimeOf = ({ line, at }: Spot): number => timeOf(line.row.end, at) - timeOf(line.row.begin, at);

const timeOf = (times: Float64Array, at: number): number => times[at] as number;

/** Lines of a span's tooltip. */
export function spotLines(scene: Scene, spot: Spot, wording: Wording): string[] {
  const { line, at } = spot;
  const { spans, row } = line;
  const flags = row.flags[at] as number;
  const where = `rank ${numbered(spans.rank, wording.programs)} · thread ${row.thread}${isGpu(spans, row.thread) ? ' (GPU)' : ''} · depth ${row.depth}`;
  const from = sinceStart(timeOf(row.begin, at) - wording.zero_us);
  const when = `${from} to ${flags & OPEN ? openEnd(wording.isOver ?? false) : sinceStart(timeOf(row.end, at) - wording.zero_us)}`;
  const name = folded(nameOf(spot));
  if (flags & MERGED) {
    const runtime = duration(runtimeOf(spot));
    return [
      `${exact(row.count[at] as number)} short calls in ${runtime}`,
      `each shorter than ${duration(spans.column_us)}; the longest: ${name}`,
      where,
      when,
      'zoom in to see them',
    ];
  }
  const exclusive = row.exclusive[at] as number;
  const lines = [name, `inclusive ${duration(runtimeOf(spot))}${exclusive < 0 ? '' : `, exclusive ${duration(exclusive)}`}`];
  const judged = judgedOf(spans, row, at);
  if (judged !== undefined) {
    const took = wording.metric === 'inclusive' ? judged.inclusive_us : judged.exclusive_us;
    const times = judged.expected_us > 0 ? `, ${ratio(took / judged.expected_us)}` : '';
    lines.push(`expected ${duration(judged.expected_us)} ${wording.metric}${times}`);
    const lost = judged.is_anomaly ? `▲ ${duration(judged.severity_us)} lost` : '○ normal';
    lines.push(`${lost}, score ${score(judged.score, wording.scoreUnit)}`);
  } else if (flags & ANOMALY) lines.push('▲ abnormal');
  lines.push(where, when);
  const parent = parentOf(scene, spot);
  const called = parent === null || (parent.line.row.flags[parent.at] as number) & MERGED ? '' : `called by ${shorten(nameOf(parent), 32).text}`;
  const inside = judged === undefined ? '' : `${plural(judged.children, 'child').replace('childs', 'children')}, ${plural(judged.messages, 'message')}`;
  const context = [called, inside, flags & DOUBTFUL ? 'events of the trace were lost during this call' : ''].filter((text) => text !== '').join(' · ');
  if (context !== '') lines.push(context);
  return [...lines, judged === undefined ? 'click: select' : 'click: select · double click: why'];
}

const isGpu = (spans: RankSpans, thread: number): boolean => spans.threads.some((one) => one.thread === thread && one.isGpu);

const folded = (name: string): string => (name.length > 160 ? `${name.slice(0, 100)}…${name.slice(-56)}` : name);

export function arrowLines(arrow: Arrow, wording: Wording): string[] {
  const { link, rank } = arrow;
  const at = (time: number): string => sinceStart(time - wording.zero_us);
  if (link.kind === LAUNCHED) {
    return [
      link.count > 1 ? `${exact(link.count)} launches` : 'launch',
      `${link.count > 1 ? 'the first: ' : ''}from thread ${link.thread} to thread ${link.otherThread} (GPU)`,
      `launched ${at(link.time)}`,
      `began ${at(link.otherTime)}, ${duration(link.otherTime - link.time)} later`,
    ];
  }
  const other = `${rank.split(':')[0]}:${link.otherRank}`;
  const [from, to] = link.kind === RECEIVED ? [other, rank] : [rank, other];
  const [sent, received] = link.kind === RECEIVED ? [link.otherTime, link.time] : [link.time, link.otherTime];
  const what = link.count > 1 ? `${exact(link.count)} messages, ${bytes(link.bytes)} in all` : `message of ${bytes(link.bytes)}, tag ${link.tag}`;
  const lines = [what, `rank ${numbered(from, wording.programs)} → rank ${numbered(to, wording.programs)}`];
  if (link.count > 1) lines.push('the first:');
  lines.push(sent < 0 ? 'when it was sent is not known' : `sent ${at(sent)}`, received < 0 ? 'when it was received is not known' : `received ${at(received)}`);
  if (sent >= 0 && received >= 0) lines.push(`in transit for ${duration(Math.max(0, received - sent))}`);
  if (arrow.waited_us > 0) lines.push(`rank ${numbered(to, wording.programs)} had waited ${duration(arrow.waited_us)} when it was sent`);
  return [...lines, arrow.to === null ? `click: show rank ${numbered(other, wording.programs)}, too` : 'click: go to its other end'];
}

export function ribbonLines(mark: RibbonMark, wording: Wording): string[] {
  const worst = mark.spots.reduce((best, spot) => (severityOf(spot) > severityOf(best) ? spot : best));
  const first = mark.spots[0] as Spot;
  const from = sinceStart((first.line.row.begin[first.at] as number) - wording.zero_us);
  return [
    mark.spots.length === 1 ? '▲ 1 abnormal call' : `▲ ${exact(mark.spots.length)} abnormal calls`,
    `${mark.spots.length === 1 ? '' : 'the worst: '}${folded(nameOf(worst))}`,
    `${duration(severityOf(worst))} lost, rank ${numbered(worst.line.spans.rank, wording.programs)}`,
    `from ${from}`,
    'click: select and show it',
  ];
}

const severityOf = ({ line, at }: Spot): number => judgedOf(line.spans, line.row, at)?.severity_us ?? 0;

export function laneName(lane: Lane, programs: number): [rank: string, thread: string] {
  return [`r${numbered(lane.spans.rank, programs)}`, lane.isGpu ? `GPU, thr. ${lane.thread}` : `thread ${lane.thread}`];
}

/** Range of times of a picture, in the unit of its length. */
export function rangeText(first: number, last: number, zero_us: number): string {
  const [from, to] = [first - zero_us, last - zero_us];
  const decimals = Math.max(0, Math.min(6, 2 - Math.floor(Math.log10(Math.max(1, to - from) / 1e6))));
  return `${fixed(from / 1e6, decimals)}–${fixed(to / 1e6, decimals)} s`;
}

/** First sentence of the page, where no recorded call is selected: the worst call of all ranks that are shown. */
export function sceneAnswer(ranks: readonly RankSpans[], shown: Range, { programs }: Wording): string {
  const [first, ...others] = ranks;
  const name = others.length === 0 ? `Rank ${numbered(first?.rank ?? '0:0', programs)}` : plural(ranks.length, 'rank');
  const abnormal = abnormalIn(ranks, shown);
  const [worst] = abnormal;
  if (worst === undefined) return `${name}: no abnormal call in this time.`;
  const where = others.length === 0 ? '' : ` on rank ${numbered(worst.rank, programs)}`;
  return `${name}: ${plural(abnormal.length, 'abnormal call')}; the worst is ${shorten(worst.call.function, 40).text}${where}, ${duration(worst.call.severity_us)} lost.`;
}

export interface Abnormal {
  id: string;
  rank: RankKey;
  call: Judged;
}

/** Abnormal calls of some ranks in a range of times, the most time lost first. */
export const abnormalIn = (ranks: readonly RankSpans[], [first, last]: Range): Abnormal[] =>
  ranks
    .flatMap(({ rank, judged }) => [...judged].map(([id, call]): Abnormal => ({ id: `${rank}:${id}`, rank, call })))
    .filter(({ call }) => call.is_anomaly && call.entry_us <= last && call.entry_us + call.inclusive_us >= first)
    .sort((a, b) => b.call.severity_us - a.call.severity_us);

/** Which calls are in the picture, and which are not. */
export function sourceText(ranks: readonly RankSpans[]): string {
  const main = ranks[0] as RankSpans;
  const merged = main.rows.some((row) => row.flags.some((flags) => flags & MERGED))
    ? ` Calls shorter than ${duration(main.column_us)} are merged, except for abnormal ones.`
    : '';
  if (main.source === 'trace') return `All calls of the recorded trace.${merged}`;
  const left = main.leftOut > 0 ? ` The windows of ${exact(main.leftOut)} less severe calls are left out: zoom in.` : '';
  return `The windows of recorded calls; hatched, or bands of their time: normal calls, analysed but not kept.${left}${merged}`;
}
