import { ranked } from '../shared/names/answer';
import { STATISTIC_NAMES, statisticFacts } from './model/ranking';
import { digits, duration, exact, plural } from '../shared/units/units';
import { MOST_RANKS, STATISTICS } from '../shared/address/model/view';
import { rankingRequest } from '../shared/api/requests';
import { go, view } from '../shared/address/address';
import { hideTip, hoveredRank, showTip } from '../shared/session/page';
import { slots } from './steps/histories';
import { ranking } from './overview';
import { programs } from '../shared/session/session';
import { Field } from '../shared/parts/field';
import { Mark } from '../shared/charts/mark';
import { Empty, Panel, Reading, useHeld } from '../shared/parts/panel';
import { Table } from '../shared/parts/table';
import { Track } from '../shared/charts/track';
import { toggle } from './choose';
import type { Ranking, RankRow, Statistic } from '../shared/api/types';

export const keyOf = (row: RankRow): string => `${row.program}:${row.rank}`;
const orderOf = (value: Ranking | null): string => (value === null ? '' : [...value.top, null, ...value.bottom].map((row) => row && keyOf(row)).join());

/** Ranks with the most and the fewest anomalies per step. */
export function Ranks() {
  const held = useHeld(ranking.value.value, orderOf);
  const { statistic, n } = view.value;
  held.ask(`${statistic} ${n}`);
  const shown = held.shown;
  const most = Math.max(0, ...(shown?.top ?? []).map((row) => row[shown?.statistic ?? statistic]));
  return (
    <Panel
      name="ranks"
      title="Ranks"
      summary={shown ? summaryOf(shown) : ''}
      actions={<Choices waits={held.waits} update={held.update} />}
      hold={held.handlers}
      asks={{ json: rankingRequest(statistic, n), hasSql: statistic !== 'skewness' && statistic !== 'kurtosis' }}
      table={() => <RankTable shown={shown} />}
    >
      {shown === null ? (
        <Reading what="ranks" />
      ) : shown.ranks === 0 ? (
        <Empty>No rank has reported a step yet.</Empty>
      ) : (
        <div class="rank-lists">
          <RankList title={`most, of ${exact(shown.ranks)}`} rows={shown.top} most={most} statistic={shown.statistic} name="top" />
          <RankList title="least" rows={shown.bottom} most={most} statistic={shown.statistic} name="bottom" />
        </div>
      )}
    </Panel>
  );
}

function Choices({ waits, update }: { waits: boolean; update: () => void }) {
  const { statistic, n } = view.value;
  return (
    <>
      <select aria-label="Statistic of anomalies per step" value={statistic} onChange={(event) => go({ statistic: event.currentTarget.value as Statistic })}>
        {STATISTICS.map((name) => (
          <option key={name} value={name}>
            {STATISTIC_NAMES[name]}
          </option>
        ))}
      </select>
      <Field
        label="N"
        hint="5"
        value={String(n)}
        range={[1, MOST_RANKS]}
        apply={(text) => {
          const given = Number(text);
          if (!Number.isInteger(given) || given < 1 || given > MOST_RANKS) return false;
          go({ n: given });
          return true;
        }}
      />
      {waits && (
        <button class="quiet" onClick={update}>
          order changed · update
        </button>
      )}
    </>
  );
}

interface ListProps {
  title: string;
  name: 'top' | 'bottom';
  rows: readonly RankRow[];
  most: number;
  statistic: Statistic;
}

function RankList({ title, name, rows, most, statistic }: ListProps) {
  return (
    <div class="rank-list" data-list={name}>
      <h3>{title}</h3>
      <ol>
        {rows.map((row) => (
          <RankBar key={keyOf(row)} row={row} value={row[statistic]} share={most > 0 ? row[statistic] / most : 0} />
        ))}
      </ol>
    </div>
  );
}

function RankBar({ row, value, share }: { row: RankRow; value: number; share: number }) {
  const key = keyOf(row);
  const slot = slots.value.indexOf(key);
  const selected = view.value.selected.includes(key);
  const dim = hoveredRank.value !== null && hoveredRank.value !== key;
  const show = (element: HTMLElement, delay?: number): void => {
    hoveredRank.value = key;
    const box = element.getBoundingClientRect();
    showTip({ x: box.left + box.width * 0.4, y: box.bottom - 8, lines: rankTip(row, selected) }, delay);
  };
  const leave = (): void => {
    hoveredRank.value = null;
    hideTip();
  };
  return (
    <li>
      <button
        class={`rank-bar${selected ? ' selected' : ''}${dim ? ' dim' : ''}`}
        data-rank={key}
        aria-pressed={selected}
        onClick={() => toggle(key)}
        onPointerEnter={(event) => show(event.currentTarget)}
        onPointerLeave={leave}
        onFocus={(event) => show(event.currentTarget, 0)}
        onBlur={leave}
      >
        <span class="rank-mark">{slot >= 0 && <Mark slot={slot} />}</span>
        <span class="rank-name">
          <span class="hidden">rank </span>
          {programs.value > 1 ? key : row.rank}
        </span>
        <Track share={share} />
        <span class="rank-value">{digits(value)}</span>
      </button>
    </li>
  );
}

function rankTip(row: RankRow, selected: boolean): string[] {
  return [
    `${ranked(keyOf(row), programs.value)}: ${plural(row.total, 'anomaly')} in ${plural(row.steps, 'step')}`,
    ...statisticFacts(row),
    `time lost: ${duration(row.severity_us)}`,
    `last step: ${exact(row.last_step)}`,
    selected ? 'click: remove from the chart' : 'click: show in the chart',
  ];
}

function summaryOf(shown: Ranking): string {
  const first = shown.top[0];
  if (!first) return 'No rank has reported yet.';
  return `Of ${exact(shown.ranks)} ranks, ${ranked(keyOf(first), programs.value)} has the highest ${STATISTIC_NAMES[shown.statistic]} of anomalies per step: ${digits(first[shown.statistic])}.`;
}

function RankTable({ shown }: { shown: Ranking | null }) {
  const columns = [{ heading: 'list' }, { heading: 'rank' }, ...STATISTICS.map((name) => ({ heading: STATISTIC_NAMES[name], isNumber: true }))];
  const line = (list: string, row: RankRow): string[] => [list, keyOf(row), ...STATISTICS.map((name) => digits(row[name]))];
  return <Table columns={columns} rows={[...(shown?.top ?? []).map((row) => line('most', row)), ...(shown?.bottom ?? []).map((row) => line('least', row))]} />;
}
