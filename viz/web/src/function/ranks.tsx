import { columnUnit, duration, exact, inUnit } from '../shared/units/units';
import * as api from '../shared/api/functionrequests';
import { addressOf, follow } from '../shared/address/address';
import { ranks, subject } from './function';
import { programs } from '../shared/session/session';
import { Empty, NewOrder, Panel, Reading, useHeld } from '../shared/parts/panel';
import { Track } from '../shared/charts/track';
import type { Total } from '../shared/api/types';

const orderOf = (rows: readonly Total[] | null): string => rows?.map((row) => `${row.program}:${row.rank}`).join() ?? '';

/** Ranks, by the time that this function lost on them. */
export function RanksPanel() {
  const of = subject.value;
  const found = ranks.value.value;
  const held = useHeld(found?.totals ?? null, orderOf);
  const rows = held.shown ?? [];
  const unit = columnUnit(rows.map((row) => row.severity_us));
  const most = Math.max(...rows.map((row) => row.severity_us));
  const summary = found ? `${exact(found.total)} ranks with anomalies of this function.` : '';
  const actions = (
    <>
      <span class="unit">
        {found && found.total > rows.length && `worst ${rows.length} of ${exact(found.total)} · `}
        lost, {unit === 'clock' ? 'h:mm:ss' : unit}
      </span>
      <NewOrder held={held} />
    </>
  );
  return (
    <Panel
      name="function-ranks"
      title="Ranks"
      summary={summary}
      actions={actions}
      hold={held.handlers}
      asks={of === null ? {} : { json: api.ranksRequest(of), hasSql: true }}
      table={() => <RanksTable rows={rows} />}
    >
      {ranks.error.value !== null ? (
        <Empty>{ranks.error.value}</Empty>
      ) : found === null ? (
        <Reading what="its ranks" />
      ) : rows.length === 0 ? (
        <Empty>No rank recorded an abnormal call of this function.</Empty>
      ) : (
        <ol class="share-list">
          {rows.map((row) => (
            <li key={`${row.program}:${row.rank}`}>
              <RankBar row={row} value={inUnit(row.severity_us, unit)} share={row.severity_us / most} />
            </li>
          ))}
        </ol>
      )}
    </Panel>
  );
}

function RankBar({ row, value, share }: { row: Total; value: string; share: number }) {
  const key = `${row.program}:${row.rank}`;
  const target = { page: 'calls', label: 'anomaly', rank: key, call: null, cursor: null } as const;
  const title = `${exact(row.anomalies)} anomalies, ${duration(row.severity_us)} lost, at most ${duration(row.highest_severity_us)} in one call; click: its calls there`;
  return (
    <a class="share-bar" href={addressOf(target)} title={title} data-rank={key} onClick={(event) => follow(event, target)}>
      <span>{programs.value > 1 ? key : row.rank}</span>
      <Track share={share} />
      <span class="number">▲ {exact(row.anomalies)}</span>
      <span class="number">{value}</span>
    </a>
  );
}

function RanksTable({ rows }: { rows: readonly Total[] }) {
  const unit = columnUnit(rows.map((row) => row.highest_severity_us).concat(rows.map((row) => row.severity_us)));
  return (
    <table>
      <thead>
        <tr>
          <th class="number">rank</th>
          <th class="number">anomalies</th>
          <th class="number">lost, {unit}</th>
          <th class="number">most in one call, {unit}</th>
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={`${row.program}:${row.rank}`}>
            <td class="number">{programs.value > 1 ? `${row.program}:${row.rank}` : row.rank}</td>
            <td class="number">{exact(row.anomalies)}</td>
            <td class="number">{inUnit(row.severity_us, unit)}</td>
            <td class="number">{inUnit(row.highest_severity_us, unit)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
