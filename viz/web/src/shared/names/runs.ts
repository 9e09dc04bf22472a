/** Runs of a folder, in words. */

import { duration, exact, sign } from '../units/units';
import type { ListedRun } from '../api/types';

/** State of a run, with the exit code of its application. */
export function stateOf({ state, exit_code }: ListedRun): string {
  return state === 'finished' && exit_code !== null ? `finished, exit ${exit_code}` : state;
}

/** Length of a run so far; empty where it is not known. */
export function lengthOf({ duration_us }: ListedRun): string {
  return duration_us === null ? '' : duration(duration_us);
}

const known = (value: number | null, format: (value: number) => string): string => (value === null ? 'unknown' : format(value));

/** Ranks, time lost and anomalies of a run in a list; of a run that no rank has reported in yet, nothing is said. */
export function totalsOf({ ranks, lost_us, bound, anomalies }: ListedRun): [ranks: string, lost: string, anomalies: string] {
  if (ranks === 0) return ['0', '–', '–'];
  return [known(ranks, exact), known(lost_us, (us) => sign(bound) + duration(us)), known(anomalies, exact)];
}

/** First sentence of the list of runs to compare with. */
export function runsAnswer(runs: readonly ListedRun[], own: string): string {
  const others = runs.filter((run) => !run.is_this).length;
  if (others === 0) return `${own} is the only run in its folder.`;
  return `${others} other ${others === 1 ? 'run' : 'runs'} can be compared with ${own}.`;
}

/** First sentence of the list of all runs in a folder. */
export function folderAnswer(runs: readonly ListedRun[]): string {
  if (runs.length === 0) return 'There are no runs here yet.';
  const live = runs.filter((run) => run.state === 'running').length;
  const all = runs.length === 1 ? '1 run' : `${runs.length} runs`;
  return live === 0 ? `${all}; none is running.` : `${all}; ${live === 1 ? '1 is' : `${live} are`} running.`;
}

/** Announcement of a change of that list: the number of runs, and how many match the filter. */
export function folderNews(runs: readonly ListedRun[], left: number, text: string): string {
  const answer = folderAnswer(runs);
  return text.trim() === '' ? answer : `${answer} ${left === 1 ? '1 matches' : `${left || 'None'} match`}.`;
}

/** Runs that match all words of a filter; `exit 1` counts as one word. */
export function found(runs: readonly ListedRun[], text: string): ListedRun[] {
  const words = text.toLowerCase().match(/exit \d+|\S+/g) ?? [];
  return runs.filter((run) => {
    const known = [run.name, run.folder, run.program, run.id, stateOf(run), ...run.command].join(' ').toLowerCase();
    return words.every((word) => known.includes(word));
  });
}

/** Ticked folders after a click on one: at most two, where a third replaces the first. */
export function toggled(ticked: readonly string[], folder: string): string[] {
  return ticked.includes(folder) ? ticked.filter((one) => one !== folder) : [...ticked.slice(-1), folder];
}

/** Address of the comparison of two runs, on the later one's page; empty unless there are two. */
export function comparisonOf(runs: readonly ListedRun[], ticked: readonly string[]): string {
  const [before, after] = runs.filter((run) => ticked.includes(run.folder)).sort((a, b) => a.started_us - b.started_us);
  if (before === undefined || after === undefined) return '';
  return `r/${encodeURIComponent(after.address)}/compare/${encodeURIComponent(before.folder)}`;
}
