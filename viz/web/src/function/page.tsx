import { functionAnswer } from '../shared/names/answer';
import { functionsCommand } from '../shared/asking/commands';
import { bucketsOf, isByPath, isFlagged, medianOf, pathRange } from './model/distribution';
import { duration, exact, percent } from '../shared/units/units';
import * as api from '../shared/api/functionrequests';
import { addressOf, follow, view } from '../shared/address/address';
import { known, ranks, subject, worst } from './function';
import { run } from '../shared/session/session';
import { Empty, Reading } from '../shared/parts/panel';
import { Answer } from '../shared/parts/sentence';
import { Name } from '../shared/parts/name';
import { DistributionPanel, type RuntimeMark } from './distribution';
import { ByRankPanel } from './byrank';
import { PathsPanel } from './paths';
import { RanksPanel } from './ranks';
import { TrendPanel } from './trend';
import { WorstPanel } from './worst';
import type { Distribution, FunctionStatistics } from '../shared/api/types';

/** Page of one function over the whole run. */
export function FunctionPage() {
  const name = view.value.function;
  const up = { page: 'overview', function: '', program: null } as const;
  const failure = name === '' ? 'No function is selected whose runtimes could stand here. Press / and type part of its name' : known.error.value;
  if (failure !== null && known.value.value === null) {
    return (
      <main class="function-page">
        <Empty command={functionsCommand}>
          {failure}.{' '}
          <a href={addressOf(up)} onClick={(event) => follow(event, up)}>
            Back to the run
          </a>
        </Empty>
      </main>
    );
  }
  const of = subject.value;
  const found = known.value.value;
  if (of === null || found === null) {
    return (
      <main class="function-page">
        <Reading what="the function" />
      </main>
    );
  }
  const asks = { json: api.functionRequest(of), hasSql: true };
  return (
    <main class="function-page">
      <Answer text={functionAnswer(found.statistics, ranks.value.value?.total ?? null)} />
      <Name name={of.name} />
      <Figures />
      <div class="function-panels">
        <DistributionPanel asks={asks} marks={usualMarks} note={newestLimits} />
        <TrendPanel />
        <ByRankPanel />
        <RanksPanel />
        <PathsPanel />
        <WorstPanel />
      </div>
    </main>
  );
}

/** Note where the worst call lies within the newest limits: limits move while the run learns. */
function newestLimits(distribution: Distribution): string {
  const metric = run.value.value?.config.metric ?? 'exclusive';
  const call = worst.value.value?.calls[0];
  if (call !== undefined && isByPath(call, call[`${metric}_us`], distribution)) {
    return `The worst call was judged by the ${pathRange(call)}. The limits shown are those of all calls, which are longer on other paths.`;
  }
  const isInside = usualMarks(distribution).some((mark) => mark.sign === '▲' && !isFlagged(mark.us, distribution));
  return isInside ? 'The limits shown are the newest ones; each call was judged by the limits at its time.' : '';
}

/** Marks of the median, or of the mean where only that is kept, and of the worst recorded call. */
function usualMarks(distribution: Distribution): RuntimeMark[] {
  const metric = run.value.value?.config.metric ?? 'exclusive';
  const median = medianOf(bucketsOf(distribution) ?? []);
  const usual = median ?? distribution[metric].mean_us;
  const call = worst.value.value?.calls[0];
  const longest = call?.[`${metric}_us`];
  return [
    { sign: '┊', us: usual, text: `${median === null ? 'mean' : 'median'} ${duration(usual)}` },
    ...(longest === undefined ? [] : [{ sign: '▲', us: longest, text: `worst ${duration(longest)}` } as const]),
  ];
}

/** Figures of exclusive runtimes; imported runs may have none, and zero would be wrong. */
function exclusiveFigures(found: FunctionStatistics): [string, string][] {
  if (found.exclusive_maximum_us === 0) return [['exclusive', 'unknown']];
  return [
    ['exclusive mean', `${duration(found.exclusive_mean_us)} ± ${duration(found.exclusive_stddev_us)}`],
    ['exclusive, shortest', duration(found.exclusive_minimum_us)],
    ['exclusive, longest', duration(found.exclusive_maximum_us)],
  ];
}

/** Statistics of all calls of the function. */
function Figures() {
  const answer = known.value.value;
  if (answer === null) return null;
  const { statistics: found, exclusive_us, slept_us } = answer;
  const figures: [string, string][] = [
    ['calls', exact(found.calls)],
    ['anomalies', exact(found.anomalies)],
    ['time lost', duration(found.severity_us)],
    ...exclusiveFigures(found),
    ...(exclusive_us > 0 ? [['exclusive, in all', duration(exclusive_us)] as [string, string]] : []),
    ...(slept_us === null ? [] : [['of it asleep', percent(slept_us / exclusive_us)] as [string, string]]),
    ['inclusive mean', duration(found.inclusive_mean_us)],
    ['inclusive, longest', duration(found.inclusive_maximum_us)],
  ];
  return (
    <dl class="figures">
      {figures.map(([name, value]) => (
        <div key={name} data-figure={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
