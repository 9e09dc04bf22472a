/** Begins of findings about published quantities, along a timeline. */

import { exact, sinceStart } from '../../shared/units/units';

/** A finding about a published quantity. */
export interface PublishedFinding {
  id: string;
  sentence: string;
  /** Time at which it began, in µs since the epoch. */
  time_us: number;
}

/** Findings that share a label, because their lines are too near each other. Lengths in CSS pixels. */
export interface PublishedMark {
  /** Left edge of the label. */
  x: number;
  width: number;
  text: string;
  lines: number[];
  findings: PublishedFinding[];
}

export const LABEL = 16;
const CHARACTER = 7;
/** Most findings in a tooltip. */
const MOST_SAID = 3;

/** Lines of the findings in a picture, in the order of time, with shared labels where they are too near each other. */
export function publishedOf(
  findings: readonly PublishedFinding[],
  positionOf: (time: number) => number,
  xOf: (position: number) => number,
  width: number,
): PublishedMark[] {
  const marks: PublishedMark[] = [];
  for (const finding of [...findings].sort((a, b) => a.time_us - b.time_us)) {
    const x = xOf(positionOf(finding.time_us));
    if (x < 0 || x > width) continue;
    const last = marks[marks.length - 1];
    if (last === undefined || x >= last.x + last.width) marks.push(labelled(x + 3, [x], [finding]));
    else marks[marks.length - 1] = labelled(last.x, [...last.lines, x], [...last.findings, finding]);
  }
  return marks.map((mark) => ({ ...mark, x: Math.max(0, Math.min(mark.x, width - mark.width)) }));
}

function labelled(x: number, lines: number[], findings: PublishedFinding[]): PublishedMark {
  const more = findings.length > 1 ? ` +${findings.length - 1}` : '';
  const text = `≠ ${(findings[0] as PublishedFinding).id}${more}`;
  return { x, width: text.length * CHARACTER + 8, text, lines, findings };
}

/** Lines of a label's tooltip. */
export function publishedLines({ findings }: PublishedMark, zero_us: number): string[] {
  const said = findings.slice(0, MOST_SAID).map(({ sentence, time_us }) => `≠ ${sentence} From ${sinceStart(time_us - zero_us)}`);
  const more = findings.length > MOST_SAID ? [`and ${exact(findings.length - MOST_SAID)} more`] : [];
  return [...said, ...more, findings.length > 1 ? 'click: the first of them' : 'click: its page'];
}
