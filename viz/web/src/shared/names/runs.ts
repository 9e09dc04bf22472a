/** Runs beside each other, in words. */

import { clock, duration } from '../units/units';
import type { ListedRun } from '../api/types';

/** How a run is: what it said last, and how its application ended. */
export function stateOf({ state, exit_code }: ListedRun): string {
  return state === 'finished' && exit_code !== null ? `finished, exit ${exit_code}` : state;
}

/** How long it took, or takes by now; '' where nobody knows. */
export function lengthOf({ duration_us }: ListedRun): string {
  if (duration_us === null) return '';
  return duration_us < 60e6 ? duration(duration_us) : clock(duration_us);
}

/** What the list of runs beside one opens with. */
export function runsAnswer(runs: readonly ListedRun[], own: string): string {
  const others = runs.filter((run) => !run.is_this).length;
  if (others === 0) return `${own} is the only run in its folder.`;
  return `${others} other ${others === 1 ? 'run' : 'runs'} can be compared with ${own}.`;
}

/** What the list of all runs of a folder opens with. */
export function folderAnswer(runs: readonly ListedRun[]): string {
  if (runs.length === 0) return 'No runs here yet.';
  const live = runs.filter((run) => run.state === 'running').length;
  const all = runs.length === 1 ? '1 run' : `${runs.length} runs`;
  return live === 0 ? `${all}; none goes on now.` : `${all}; ${live === 1 ? '1 goes' : `${live} go`} on now.`;
}

/** What is read out where that list changes: how many runs there are, and how many of them a filter leaves. */
export function folderNews(runs: readonly ListedRun[], left: number, text: string): string {
  const answer = folderAnswer(runs);
  return text.trim() === '' ? answer : `${answer} ${left === 1 ? '1 matches' : `${left || 'None'} match`}.`;
}

/** The runs of which each word is in what is known of them; an exit code is one word with `exit`. */
export function found(runs: readonly ListedRun[], text: string): ListedRun[] {
  const words = text.toLowerCase().match(/exit \d+|\S+/g) ?? [];
  return runs.filter((run) => {
    const known = [run.name, run.folder, run.program, run.id, stateOf(run), ...run.command].join(' ').toLowerCase();
    return words.every((word) => known.includes(word));
  });
}

/** The folders that are ticked after a click on one: two at most, of which the first goes where a third comes. */
export function toggled(ticked: readonly string[], folder: string): string[] {
  return ticked.includes(folder) ? ticked.filter((one) => one !== folder) : [...ticked.slice(-1), folder];
}

/** Where two runs are compared: the later one's page; '' where there are not two. */
export function comparisonOf(runs: readonly ListedRun[], ticked: readonly string[]): string {
  const [before, after] = runs.filter((run) => ticked.includes(run.folder)).sort((a, b) => a.started_us - b.started_us);
  if (before === undefined || after === undefined) return '';
  return `r/${encodeURIComponent(after.address)}/compare/${encodeURIComponent(before.folder)}`;
}
