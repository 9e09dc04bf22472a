/** Filters of calls: their text, their form in requests and commands, and how to drop them. */

import { ranked } from '../names/answer';
import { digits, duration, parseDuration, sinceStart } from '../units/units';
import { formatRange, oneRank, partsOf, type Range } from '../address/model/ranges';
import { isRecurring, type View } from '../address/model/view';

type Pairs = readonly (readonly [name: string, value: string])[];

interface Filter {
  isSet: (view: View) => boolean;
  text: (view: View, programs: number) => string;
  /** Parameters of the API, where times count from the epoch. */
  query: (view: View, zero_us: number) => Pairs;
  /** Options of the command. */
  words: (view: View) => readonly string[];
  dropped: Partial<View>;
}

/** Name and parameter of the filter by an incident or a recurring finding. */
const incidentFilter = (view: View): string => (isRecurring(view.incident) ? 'finding' : 'incident');

const FILTERS: readonly Filter[] = [
  {
    isSet: (view) => view.rank !== null,
    text: (view, programs) => ranked(view.rank ?? '', programs),
    query: ({ rank }) => {
      if (rank === null || oneRank(rank) !== null) return [['rank', rank ?? '']];
      const { program, ranks } = partsOf(rank);
      return [
        ['program', String(program)],
        ['rank_min', String(ranks[0])],
        ['rank_max', String(ranks[1])],
      ];
    },
    words: (view) => {
      const [program = '', ranks = ''] = (view.rank ?? '').split(':');
      return ['--program', program, '--rank', ranks.replace('..', ':')];
    },
    dropped: { rank: null },
  },
  {
    isSet: (view) => view.node !== '',
    text: (view) => `node ${view.node}`,
    query: (view) => [['node', view.node]],
    words: (view) => ['--node', view.node],
    dropped: { node: '' },
  },
  {
    isSet: (view) => view.thread !== null,
    text: (view) => `thread ${view.thread}`,
    query: (view) => [['thread', String(view.thread)]],
    words: (view) => ['--thread', String(view.thread)],
    dropped: { thread: null },
  },
  {
    isSet: (view) => view.steps !== null,
    text: (view) => `step ${formatRange(view.steps)}`,
    query: ({ steps }) =>
      steps === null
        ? []
        : [
            ['step_min', String(steps[0])],
            ['step_max', String(steps[1])],
          ],
    words: ({ steps }) => (steps === null ? [] : ['--step', steps[0] === steps[1] ? String(steps[0]) : steps.join(':')]),
    dropped: { steps: null },
  },
  {
    isSet: (view) => view.times !== null,
    text: ({ times }) => (times === null ? '' : `time ${sinceStart(times[0])} to ${sinceStart(times[1])}`),
    query: ({ times }, zero_us) =>
      times === null
        ? []
        : [
            ['time_min_us', String(zero_us + times[0])],
            ['time_max_us', String(zero_us + times[1])],
          ],
    words: ({ times }) => (times === null ? [] : ['--time', `${times[0]}us:${times[1]}us`]),
    dropped: { times: null },
  },
  {
    isSet: (view) => view.function !== '',
    text: (view) => `function ${view.function}`,
    query: (view) => [['function', view.function]],
    words: (view) => ['--function', view.function],
    dropped: { function: '' },
  },
  {
    isSet: (view) => view.severity_us > 0,
    text: (view) => `severity ≥ ${duration(view.severity_us)}`,
    query: (view) => [['min_severity_us', String(view.severity_us)]],
    words: (view) => ['--min-severity', `${view.severity_us}us`],
    dropped: { severity_us: 0 },
  },
  {
    isSet: (view) => view.score > 0,
    text: (view) => `score ≥ ${digits(view.score)}`,
    query: (view) => [['min_score', String(view.score)]],
    words: (view) => ['--min-score', String(view.score)],
    dropped: { score: 0 },
  },
  {
    isSet: (view) => view.gpu !== null,
    text: (view) => (view.gpu ? 'on a GPU' : 'not on a GPU'),
    query: (view) => [['is_gpu', String(view.gpu)]],
    words: (view) => [view.gpu ? '--gpu' : '--no-gpu'],
    dropped: { gpu: null },
  },
  {
    isSet: (view) => view.text !== '',
    text: (view) => `text ${view.text}`,
    query: (view) => [['text', view.text]],
    words: (view) => ['--text', view.text],
    dropped: { text: '' },
  },
  {
    isSet: (view) => view.incident !== null,
    text: (view) => `${incidentFilter(view)} ${view.incident}`,
    query: (view) => [[incidentFilter(view), view.incident ?? '']],
    words: (view) => [`--${incidentFilter(view)}`, view.incident ?? ''],
    dropped: { incident: null },
  },
  {
    isSet: (view) => view.label !== 'any',
    text: (view) => (view.label === 'anomaly' ? 'anomalies only' : 'normal calls only'),
    // Server and command have default labels of their own, so the label is always sent.
    query: () => [],
    words: () => [],
    dropped: { label: 'any' },
  },
];

/** Filters that are set, in order. */
export const filtersOf = (view: View): Filter[] => FILTERS.filter((filter) => filter.isSet(view));

/** Parse times since the run's start such as `86..86.6` or `500ms..2s`; without a unit, they are seconds. */
export function parseTimes(text: string): Range | null {
  const ends = text.split('..').map((end) => parseDuration(/[a-zµμ]\s*$/.test(end) ? end : `${end.trim()}s`));
  const [first = null, last = null] = ends;
  return first === null || last === null || last < first || ends.length > 2 ? null : [Math.round(first), Math.round(last)];
}

/** Format times so that `parseTimes` can read them. */
export const formatTimes = (times: Range | null): string => (times === null ? '' : times.map((us) => us / 1e6).join('..'));

/** Change of the view that drops all filters. */
export const UNFILTERED: Partial<View> = Object.assign({}, ...FILTERS.map((filter) => filter.dropped)) as Partial<View>;

/** Filters of a view as parameters of the API. */
export function filterQuery(view: View, zero_us: number): Pairs {
  return [...filtersOf(view).flatMap((filter) => filter.query(view, zero_us)), ['label', view.label]];
}

/** Filters of a view as options of commands. */
export function filterWords(view: View): string[] {
  return [...filtersOf(view).flatMap((filter) => filter.words(view)), '--label', view.label];
}
