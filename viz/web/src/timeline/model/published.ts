/** Where quantities that programs publish begin to be wrong, along a timeline. */

import { exact, sinceStart } from '../../shared/units/units';

/** One thing that is wrong. */
export interface PublishedFinding {
  id: string;
  sentence: string;
  /** When it began, in µs since the epoch. */
  time_us: number;
}

/** Findings whose lines are too near for a label each; lengths are CSS pixels. */
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
/** So many are said in a tip. */
const MOST_SAID = 3;

/** Lines of the findings in a picture, the first one first, with a label for those that are side by side. */
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

/** What is said of a label. */
export function publishedLines({ findings }: PublishedMark, zero_us: number): string[] {
  const said = findings.slice(0, MOST_SAID).map(({ sentence, time_us }) => `≠ ${sentence} From ${sinceStart(time_us - zero_us)}`);
  const more = findings.length > MOST_SAID ? [`and ${exact(findings.length - MOST_SAID)} more`] : [];
  return [...said, ...more, findings.length > 1 ? 'click: the first of them' : 'click: what is known of it'];
}
