import { functionCommand } from '../shared/asking/commands';
import { columnUnit, digits, exact, inUnit, ratio } from '../shared/units/units';
import * as api from '../shared/api/functionrequests';
import { addressOf, follow } from '../shared/address/address';
import { timeText } from '../shared/session/clock';
import { known, subject, worst } from './function';
import { programs, run } from '../shared/session/session';
import { Triangle } from '../shared/charts/mark';
import { Empty, NewOrder, Panel, Reading, useHeld } from '../shared/parts/panel';
import type { CallSummary } from '../shared/api/types';

const orderOf = (rows: readonly CallSummary[] | null): string => rows?.map((row) => row.id).join() ?? '';

/** Worst abnormal calls of the function. */
export function WorstPanel() {
  const of = subject.value;
  const found = worst.value.value;
  const held = useHeld(found?.calls ?? null, orderOf);
  const rows = held.shown;
  const all = { page: 'calls', label: 'anomaly', call: null, cursor: null } as const;
  const summary = found ? `${exact(found.total)} abnormal calls are recorded${countedOnly(found.total)}.` : '';
  const actions = (
    <>
      <span class="unit">{summary}</span>
      <NewOrder held={held} />
      {found !== null && found.total > 0 && (
        <a href={addressOf(all)} onClick={(event) => follow(event, all)}>
          All in the chart
        </a>
      )}
    </>
  );
  const asks = of === null ? {} : { json: api.worstRequest(of), hasSql: true, command: (directory: string) => functionCommand(directory, of, api.WORST) };
  return (
    <Panel name="function-worst" title="Worst calls" summary={summary} actions={actions} hold={held.handlers} asks={asks}>
      {worst.error.value !== null ? (
        <Empty>{worst.error.value}</Empty>
      ) : rows === null ? (
        <Reading what="its calls" />
      ) : rows.length === 0 ? (
        <Empty>No abnormal call of this function was recorded.</Empty>
      ) : (
        <WorstTable rows={rows} />
      )}
    </Panel>
  );
}

/** Number of calls that were flagged but not recorded, or removed since, in words. */
function countedOnly(recorded: number): string {
  const flagged = known.value.value?.statistics.anomalies ?? recorded;
  return flagged > recorded ? `; ${exact(flagged - recorded)} more were only counted, or removed since` : '';
}

function WorstTable({ rows }: { rows: readonly CallSummary[] }) {
  const metric = run.value.value?.config.metric ?? 'exclusive';
  const lostUnit = columnUnit(rows.map((row) => row.severity_us));
  const unit = columnUnit(rows.map((row) => row[`${metric}_us`]));
  return (
    <table>
      <thead>
        <tr>
          <th>call</th>
          <th>time</th>
          <th class="number">rank</th>
          <th class="number">step</th>
          <th class="number">
            {metric}, {unit}
          </th>
          <th class="number">× usual</th>
          <th class="number">lost, {lostUnit}</th>
          <th class="number">score</th>
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => {
          const target = { page: 'call', call: row.id } as const;
          return (
            <tr key={row.id} data-call={row.id}>
              <td>
                <a href={addressOf(target)} onClick={(event) => follow(event, target)}>
                  <Triangle /> {row.id}
                </a>
              </td>
              <td>{timeText(row.entry_us)}</td>
              <td class="number">{programs.value > 1 ? `${row.program}:${row.rank}` : row.rank}</td>
              <td class="number">{exact(row.step)}</td>
              <td class="number">{inUnit(row[`${metric}_us`], unit)}</td>
              <td class="number">{row.expected_us > 0 ? ratio(row[`${metric}_us`] / row.expected_us) : '–'}</td>
              <td class="number">{inUnit(row.severity_us, lostUnit)}</td>
              <td class="number">{digits(row.score)}</td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}
