import { lossTitle, State } from '../app/statusbar';
import { clock, duration, exact, percent, sign } from '../shared/units/units';
import { addressOf, follow } from '../shared/address/address';
import { run, status } from '../shared/session/session';
import { Sentence } from '../shared/parts/sentence';
import { BudgetBar } from './budgetbar';
import { headline } from './headline';
import { findingKey, findingsOf, summaryOf, type Finding } from './model/findings';
import { incidents } from './overview';
import type { View } from '../shared/address/model/view';

/** Number of findings that can still be read from across a room. */
const MOST = 3;

const BACK = { page: 'overview' } as const;

/** View of a run for a screen on the wall: its headline, its budget and its worst findings, without anything to press. */
export function Wall() {
  const found = incidents.value.value;
  const worst = found === null ? [] : findingsOf(found).slice(0, MOST);
  return (
    <main class="wall">
      <p class="wall-run">
        <a href={addressOf(BACK)} onClick={(event) => follow(event, BACK)} title="Back to the overview (Esc)">
          {run.value.value?.name ?? '…'}
        </a>
        <State />
        <Facts />
      </p>
      <h1 data-answer>
        <Sentence text={headline.value} />
      </h1>
      <BudgetBar />
      <ol>
        {worst.map((one) => (
          <Worst key={findingKey(one)} finding={one} />
        ))}
      </ol>
    </main>
  );
}

function Facts() {
  const shown = status.value;
  if (shown === null) return null;
  const { clock_us, loss, losses, ranks, ranks_reporting } = shown;
  return (
    <>
      <span>{clock(clock_us)}</span>
      <span class={ranks_reporting < ranks ? 'warn' : ''}>
        {exact(ranks_reporting)}/{exact(ranks)} ranks
      </span>
      {(loss !== 0 || Object.keys(losses).length > 0) && (
        <span class="warn">
          {percent(loss)} of steps lost, {lossTitle(losses)}
        </span>
      )}
    </>
  );
}

function Worst({ finding }: { finding: Finding }) {
  const { id, sentence } = summaryOf(finding);
  const target: Partial<View> = finding.kind === 'node' ? { page: 'node', node: finding.node.node } : { page: 'incident', incident: id, call: null };
  return (
    <li>
      <strong>{finding.cost_us === null ? '≠' : sign(finding.bound) + duration(finding.cost_us)}</strong>
      <a href={addressOf(target)} onClick={(event) => follow(event, target)}>
        <Sentence text={sentence} />
      </a>
    </li>
  );
}
