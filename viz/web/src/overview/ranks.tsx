import { ranked } from '../shared/names/answer';
import { STATISTIC_NAMES, type RankLine, type RankLines } from './model/ranking';
import { bounded, lostUnit, digits, duration, exact, inUnit, sign } from '../shared/units/units';
import { MOST_RANKS, RANKINGS, type RankedBy } from '../shared/address/model/view';
import { chosenTimes } from './steps/times';
import { originsRequest, rankingRequest } from '../shared/api/requests';
import { go, view } from '../shared/address/address';
import { hideTip, hoveredRank, showTip } from '../shared/session/page';
import { slots } from './steps/histories';
import { ranking } from './overview';
import { programs, status } from '../shared/session/session';
import { Field } from '../shared/parts/field';
import { Mark } from '../shared/charts/mark';
import { Empty, NewOrder, Panel, Reading, useHeld, type Held } from '../shared/parts/panel';
import { Table } from '../shared/parts/table';
import { Track } from '../shared/charts/track';
import { toggle } from './choose';

export const keyOf = (row: RankLine): string => `${row.program}:${row.rank}`;
const orderOf = (value: RankLines | null): string => (value === null ? '' : [...value.top, null, ...value.bottom].map((row) => row && keyOf(row)).join());

/** Ranks that lost most and least time, or have the most and the fewest anomalies per step. */
export function Ranks() {
  const held = useHeld(ranking.value.value, orderOf);
  const { statistic, n } = view.value;
  held.ask(`${statistic} ${n}`);
  const shown = held.shown;
  const asked = shown?.by ?? statistic;
  const hasLeast = shown !== null && shown.by !== 'origin' && shown.ranks > 1;
  return (
    <Panel
      name="ranks"
      title="Ranks"
      summary={shown ? summaryOf(shown) : ''}
      actions={<Choices shown={asked} held={held} />}
      hold={held.handlers}
      asks={
        asked === 'origin'
          ? { json: originsRequest('rank', n, chosenTimes.value) }
          : { json: rankingRequest(asked, n), hasSql: asked !== 'skewness' && asked !== 'kurtosis' }
      }
      table={() => <RankTable shown={shown} />}
    >
      {shown === null ? (
        <Reading what="ranks" rows={Math.min(view.value.n, status.value?.ranks ?? 0)} />
      ) : shown.ranks === 0 ? (
        <Empty>No rank has reported a step yet.</Empty>
      ) : (
        <div class={`rank-lists${shown.by === 'origin' ? ' origins' : ''}${hasLeast ? '' : ' alone'}`}>
          <RankList shown={shown} rows={shown.top} name="top" />
          {hasLeast && <RankList shown={shown} rows={shown.bottom} name="bottom" />}
        </div>
      )}
    </Panel>
  );
}

function Choices({ shown, held }: { shown: RankedBy; held: Held }) {
  const { statistic, n } = view.value;
  const isElsewhere = statistic === 'origin' && shown !== 'origin';
  return (
    <>
      <select aria-label="Statistic of anomalies per step" value={shown} onChange={(event) => go({ statistic: event.currentTarget.value as RankedBy })}>
        {RANKINGS.filter((name) => name !== 'origin' || !isElsewhere).map((name) => (
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
      <NewOrder held={held} />
    </>
  );
}

interface ListProps {
  shown: RankLines;
  name: 'top' | 'bottom';
  rows: readonly RankLine[];
}

/** Lines with bars; times are in the unit of the heading. */
function RankList({ shown, name, rows }: ListProps) {
  const isOrigin = shown.by === 'origin';
  const most = Math.max(0, ...shown.top.map((row) => row.value));
  const unit = lostUnit(isOrigin ? rows.flatMap((row) => [row.value, row.waited_us ?? 0]) : []);
  const text = isOrigin ? (us: number) => inUnit(us, unit) : shown.by === 'severity_us' ? duration : digits;
  return (
    <div class="rank-list" data-list={name}>
      {isOrigin ? (
        <h3 class="rank-bar rank-heading">
          <span class="rank-title">of {exact(shown.ranks)}</span>
          <span class="rank-value">lost, {unit}</span>
          <span class="rank-value">waited</span>
        </h3>
      ) : (
        <h3>{name === 'top' ? `most, of ${exact(shown.ranks)}` : 'least'}</h3>
      )}
      <ol>
        {rows.map((row) => (
          <RankBar
            key={keyOf(row)}
            row={row}
            value={sign(row.bound) + text(row.value)}
            waited={row.waited_us === null ? null : text(row.waited_us)}
            share={most > 0 ? row.value / most : 0}
          />
        ))}
      </ol>
    </div>
  );
}

function RankBar({ row, value, waited, share }: { row: RankLine; value: string; waited: string | null; share: number }) {
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
        <span class="rank-value">{value}</span>
        {waited !== null && (
          <span class="rank-value">
            <span class="hidden">waited </span>
            {waited}
          </span>
        )}
      </button>
    </li>
  );
}

function rankTip(row: RankLine, selected: boolean): string[] {
  const [first, ...others] = row.facts;
  return [`${ranked(keyOf(row), programs.value)}: ${first}`, ...others, selected ? 'click: remove from the chart' : 'click: show in the chart'];
}

function summaryOf(shown: RankLines): string {
  const first = shown.top[0];
  if (!first) return 'No rank has reported yet.';
  const name = ranked(keyOf(first), programs.value);
  if (shown.by === 'origin') return `Of ${exact(shown.ranks)} ranks, most time was lost because of ${name}: ${bounded(first.value, first.bound)}.`;
  if (shown.by === 'severity_us') return `Of ${exact(shown.ranks)} ranks, ${name} lost most time in its abnormal calls: ${duration(first.value)}.`;
  return `Of ${exact(shown.ranks)} ranks, ${name} has the highest ${STATISTIC_NAMES[shown.by]} of anomalies per step: ${digits(first.value)}.`;
}

function RankTable({ shown }: { shown: RankLines | null }) {
  const columns = [{ heading: 'list' }, { heading: 'rank' }, ...(shown?.headings ?? []).map((heading) => ({ heading, isNumber: true }))];
  const line = (list: string, row: RankLine): string[] => [list, keyOf(row), ...row.cells];
  return <Table columns={columns} rows={[...(shown?.top ?? []).map((row) => line('most', row)), ...(shown?.bottom ?? []).map((row) => line('least', row))]} />;
}
