import type { ComponentChildren } from 'preact';
import { useMemo } from 'preact/hooks';
import { placedName, shortenAll, wrapped, type ShortName } from '../shared/names/names';
import { STATISTIC_NAMES, type FunctionLine, type FunctionLines } from './model/ranking';
import { bounded, lostUnit, digits, duration, exact, inUnit, sign } from '../shared/units/units';
import { RANKINGS, type RankedBy, type View } from '../shared/address/model/view';
import { chosenTimes } from './steps/times';
import { functionRankingRequest, originsRequest } from '../shared/api/requests';
import type { Request } from '../shared/api/request';
import { addressOf, follow, go, view } from '../shared/address/address';
import { hideTip, hoveredFunction, showTip } from '../shared/session/page';
import { functions } from './overview';
import { Empty, NewOrder, Panel, Reading, useHeld, type Held } from '../shared/parts/panel';
import { Table } from '../shared/parts/table';
import { Track } from '../shared/charts/track';

const keyOf = (row: FunctionLine): string => `${row.program} ${row.name}`;
const orderOf = (value: FunctionLines | null): string =>
  value === null ? '' : [...value.top, null, ...value.bottom].map((row) => row && keyOf(row)).join('\n');

/** Functions by the time lost, or by their anomalies per step. */
export function Functions() {
  const held = useHeld(functions.value.value, orderOf);
  const { by, n } = view.value;
  held.ask(`${by} ${n}`);
  const shown = held.shown;
  const asked = shown?.by ?? by;
  const rows = shown === null ? [] : [...shown.top, ...shown.bottom];
  const names = useMemo(
    () =>
      shortenAll(
        rows.map((row) => row.name),
        26,
      ),
    [shown],
  );
  const text = textOf(shown);
  const most = Math.max(0, ...rows.map((row) => row.value));
  const list = (lines: readonly FunctionLine[]) => (
    <ol class="function-list">
      {lines.map((row) => (
        <li key={keyOf(row)}>
          <FunctionBar
            row={row}
            name={names.get(row.name) as ShortName}
            value={sign(row.bound) + text(row.value)}
            waited={row.waited_us === null ? null : text(row.waited_us)}
            share={most > 0 ? row.value / most : 0}
          />
        </li>
      ))}
    </ol>
  );
  return (
    <Panel
      name="functions"
      title="Functions"
      summary={summaryOf(shown, names, text)}
      actions={<Choices shown={shown} held={held} />}
      hold={held.handlers}
      asks={{
        json: requestOf(asked, n),
        hasSql: asked === 'severity_us',
      }}
      table={() => <FunctionTable shown={shown} names={names} />}
    >
      {shown === null ? (
        functions.error.value === null ? (
          <Reading what="functions" rows={view.value.n} />
        ) : (
          <Empty>{functions.error.value}</Empty>
        )
      ) : rows.length === 0 ? (
        <Nothing shown={shown} />
      ) : (
        <div class="function-lists">
          <section data-functions="top">
            {shown.by === 'origin' && (
              <h3 class="function-bar function-heading">
                <span class="function-name">of {exact(shown.functions)}</span>
                <span class="function-value">lost</span>
                <span class="function-value">waited</span>
              </h3>
            )}
            {list(shown.top)}
          </section>
          {shown.bottom.length > 0 && (
            <section data-functions="bottom">
              <h3>least, of {exact(shown.functions)}</h3>
              {list(shown.bottom)}
            </section>
          )}
        </div>
      )}
    </Panel>
  );
}

function Nothing({ shown }: { shown: FunctionLines }) {
  if (shown.functions > 0) return <Empty>No anomalies in {exact(shown.functions)} functions.</Empty>;
  if (shown.by === 'severity_us' || shown.by === 'mean' || shown.by === 'total') return <Empty>There are no statistics of functions yet.</Empty>;
  return (
    <Empty>
      It is not known in which steps functions were abnormal.{' '}
      <button class="quiet" onClick={() => go({ by: 'severity_us' })}>
        Sort by time lost
      </button>
    </Empty>
  );
}

function Choices({ shown, held }: { shown: FunctionLines | null; held: Held }) {
  const unit = unitOf(shown);
  const by = shown?.by ?? view.value.by;
  const isElsewhere = view.value.by === 'origin' && by !== 'origin';
  return (
    <>
      <select aria-label="Statistic of functions" value={by} onChange={(event) => go({ by: event.currentTarget.value as RankedBy })}>
        {RANKINGS.filter((name) => name !== 'origin' || !isElsewhere).map((name) => (
          <option key={name} value={name}>
            {STATISTIC_NAMES[name]}
          </option>
        ))}
      </select>
      {isTime(shown) && <span class="unit">{unit === 'clock' ? 'h:mm:ss' : unit}</span>}
      <NewOrder held={held} />
    </>
  );
}

const isTime = (shown: FunctionLines | null): boolean => shown?.by === 'severity_us' || shown?.by === 'origin';

const unitOf = (shown: FunctionLines | null) => lostUnit((shown?.top ?? []).flatMap((row) => [row.severity_us, row.waited_us ?? 0]));

/** Formatter of the values, in one unit. */
function textOf(shown: FunctionLines | null): (value: number) => string {
  if (!isTime(shown)) return digits;
  const unit = unitOf(shown);
  return (value) => inUnit(value, unit);
}

interface BarProps {
  row: FunctionLine;
  name: ShortName;
  value: string;
  waited: string | null;
  share: number;
}

function FunctionBar({ row, name, value, waited, share }: BarProps) {
  const chosen = view.value.function === row.name;
  const dim = hoveredFunction.value !== null && hoveredFunction.value !== row.name;
  const target: Partial<View> = { page: 'function', function: row.name, program: row.program, call: null, cursor: null };
  const show = (element: HTMLElement, delay?: number): void => {
    hoveredFunction.value = row.name;
    const box = element.getBoundingClientRect();
    showTip({ x: box.left + 8, y: box.bottom - 8, lines: functionTip(row, chosen) }, delay);
  };
  const leave = (): void => {
    hoveredFunction.value = null;
    hideTip();
  };
  const click = (event: MouseEvent): void => {
    if (!event.ctrlKey && !event.metaKey) return follow(event, target);
    event.preventDefault();
    go({ function: chosen ? '' : row.name, cursor: null });
  };
  return (
    <a
      class={`function-bar${chosen ? ' selected' : ''}${dim ? ' dim' : ''}`}
      href={addressOf(target)}
      data-function={row.name}
      onClick={click}
      onPointerEnter={(event) => show(event.currentTarget)}
      onPointerLeave={leave}
      onFocus={(event) => show(event.currentTarget, 0)}
      onBlur={leave}
    >
      <span class="function-name">
        {name.text} {name.tag && <em>{name.tag}</em>}
      </span>
      <span class="function-value">{value}</span>
      {waited !== null && (
        <span class="function-value">
          <span class="hidden">waited </span>
          {waited}
        </span>
      )}
      <Track share={share} />
    </a>
  );
}

function functionTip(row: FunctionLine, chosen: boolean): string[] {
  return [wrapped(placedName(row.name)), ...row.facts, `click: its page · Ctrl-click: ${chosen ? 'all functions again' : 'only its calls'}`];
}

function summaryOf(shown: FunctionLines | null, names: ReadonlyMap<string, ShortName>, text: (value: number) => string): string {
  const first = shown?.top[0];
  if (!shown || !first) return 'No function with anomalies.';
  const name = names.get(first.name)?.text ?? first.name;
  if (shown.by === 'origin') return `Most time was lost because of ${name}: ${bounded(first.value, first.bound)}.`;
  if (shown.by === 'severity_us') return `${name} lost most time: ${duration(first.severity_us)}.`;
  return `Of ${exact(shown.functions)} functions, ${name} has the highest ${STATISTIC_NAMES[shown.by]} of anomalies per step: ${text(first.value)}.`;
}

function FunctionTable({ shown, names }: { shown: FunctionLines | null; names: ReadonlyMap<string, ShortName> }) {
  const [top, bottom] = [shown?.top ?? [], shown?.bottom ?? []];
  const unit = lostUnit([...top, ...bottom].flatMap((row) => [row.severity_us, row.waited_us ?? 0]));
  const heading = unit === 'clock' ? 'h:mm:ss' : unit;
  const isOrigin = shown?.by === 'origin';
  const isOther = shown !== null && !isTime(shown);
  const numbers = isOrigin
    ? ['incidents', `lost because of it, ${heading}`, `waited for others, ${heading}`]
    : [...(isOther ? [STATISTIC_NAMES[shown.by]] : []), 'anomalies', `lost, ${heading}`];
  const line = (list: string, row: FunctionLine): ComponentChildren[] => [
    list,
    <code title={row.name}>{names.get(row.name)?.text}</code>,
    ...(isOther ? [digits(row.value)] : []),
    exact(row.anomalies),
    sign(row.bound) + inUnit(row.severity_us, unit),
    ...(row.waited_us === null ? [] : [inUnit(row.waited_us, unit)]),
  ];
  return (
    <Table
      columns={[{ heading: 'list' }, { heading: 'function' }, ...numbers.map((heading) => ({ heading, isNumber: true }))]}
      rows={[...top.map((row) => line('most', row)), ...bottom.map((row) => line('least', row))]}
    />
  );
}

function requestOf(by: RankedBy, n: number): Request {
  if (by === 'origin') return originsRequest('function', n, chosenTimes.value);
  return by === 'severity_us' ? ['functions', [['limit', String(n)]]] : functionRankingRequest(by, n);
}
