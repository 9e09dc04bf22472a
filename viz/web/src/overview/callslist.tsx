import { useMemo } from 'preact/hooks';
import { callAnswer, ranked } from '../shared/names/answer';
import { queryCommand } from '../shared/asking/commands';
import { filtersOf, UNFILTERED } from '../shared/asking/filters';
import { placedName, shortenAll, wrapped, type ShortName } from '../shared/names/names';
import { clock, count, digits, duration, exact, ratio, sinceStart, wallClock } from '../shared/units/units';
import type { View } from '../shared/address/model/view';
import { addressOf, follow, go, view } from '../shared/address/address';
import { calls, callsAsked, list, listed, LISTED } from './overview';
import { ListChoice } from './listchoice';
import { hideTip, hoveredFunction, hoveredRank, showTip } from '../shared/session/page';
import { openEnd } from '../calls/model/callpoints';
import { programs, run, status, zero_us } from '../shared/session/session';
import { Triangle } from '../shared/charts/mark';
import { NodeLink } from '../shared/parts/nodelink';
import { Empty, NewOrder, Panel, Reading, useHeld, type Held } from '../shared/parts/panel';
import type { CallSummary } from '../shared/api/types';

const orderOf = (rows: readonly CallSummary[] | null): string => rows?.map((row) => row.id).join() ?? '';
const keyOf = (row: CallSummary): string => `${row.program}:${row.rank}`;

/** Abnormal calls that lost most time, or the newest ones, as sentences. */
export function CallsList() {
  const page = calls.value.value;
  const held = useHeld(page?.calls ?? null, orderOf);
  held.ask(JSON.stringify(callsAsked.value));
  const rows = held.shown;
  const names = useMemo(
    () =>
      shortenAll(
        (rows ?? []).map((row) => row.function),
        24,
      ),
    [rows],
  );
  const first = rows?.[0];
  return (
    <Panel
      name="worst"
      title="Abnormal calls"
      summary={first ? sentence(first) : 'None.'}
      actions={<Choices held={held} />}
      hold={held.handlers}
      asks={{
        json: callsAsked.value,
        hasSql: true,
        command: (directory) => queryCommand(directory, listed.value, LISTED),
      }}
      table={() => <CallTable rows={rows ?? []} names={names} />}
    >
      {calls.error.value !== null ? (
        <Empty>{calls.error.value}</Empty>
      ) : rows === null ? (
        <Reading what="calls" />
      ) : rows.length === 0 ? (
        <Nothing />
      ) : (
        <ol>
          {rows.map((row) => (
            <li key={row.id}>
              <CallLine row={row} name={names.get(row.function) as ShortName} />
            </li>
          ))}
        </ol>
      )}
    </Panel>
  );
}

function Choices({ held }: { held: Held }) {
  const page = calls.value.value;
  const all: Partial<View> = {
    page: 'calls',
    label: 'anomaly',
    call: null,
    cursor: null,
    sort: list.value === 'newest' ? 'entry_us' : 'severity_us',
    descending: true,
  };
  return (
    <>
      <ListChoice />
      <NewOrder held={held} />
      {page && page.total > 0 && (
        <a href={addressOf(all)} onClick={(event) => follow(event, all)} data-total={page.total}>
          all {count(page.total)}
          {page.is_total_exact ? '' : '+'} ›
        </a>
      )}
    </>
  );
}

function Nothing() {
  if (filtersOf(view.value).length > 0) {
    return (
      <Empty>
        Nothing matches the filters.{' '}
        <button class="quiet" onClick={() => go({ ...UNFILTERED, cursor: null })}>
          Drop all filters
        </button>
      </Empty>
    );
  }
  return (
    <Empty>
      {status.value?.state === 'ended' ? 'There were no abnormal calls in this run.' : 'There are no abnormal calls yet. They appear here as they are found.'}
    </Empty>
  );
}

const metric = (): 'exclusive' | 'inclusive' => run.value.value?.config.metric ?? 'exclusive';
const took = (row: CallSummary): number => (metric() === 'inclusive' || row.exit_us === 0 ? row.inclusive_us : row.exclusive_us);
const sentence = (row: CallSummary): string => callAnswer(row, metric(), programs.value);

function CallLine({ row, name }: { row: CallSummary; name: ShortName }) {
  const target = { page: 'call', call: row.id } as const;
  const dim = (hoveredRank.value !== null && hoveredRank.value !== keyOf(row)) || (hoveredFunction.value !== null && hoveredFunction.value !== row.function);
  const show = (element: HTMLElement, delay?: number): void => {
    hoveredRank.value = keyOf(row);
    const box = element.getBoundingClientRect();
    showTip({ x: box.left + 24, y: box.bottom - 8, lines: callTip(row) }, delay);
  };
  const leave = (): void => {
    hoveredRank.value = null;
    hideTip();
  };
  return (
    <a
      class={dim ? 'call-line dim' : 'call-line'}
      href={addressOf(target)}
      data-call={row.id}
      onClick={(event) => follow(event, target)}
      onPointerEnter={(event) => show(event.currentTarget)}
      onPointerLeave={leave}
      onFocus={(event) => show(event.currentTarget, 0)}
      onBlur={leave}
    >
      <Triangle />
      <span class="call-name">
        {row.expected_us > 0 && <b>{ratio(took(row) / row.expected_us)}</b>} <code>{name.text}</code> {name.tag && <em>{name.tag}</em>}
      </span>
      <span class="call-lost">+{duration(row.severity_us)}</span>
      <span class="call-where">
        {ranked(keyOf(row), programs.value)}, step {exact(row.step)}, {clock(row.entry_us - zero_us.value)}: took {duration(took(row))}
        {row.expected_us > 0 ? `, usually ${duration(row.expected_us)}` : ''}
      </span>
    </a>
  );
}

function callTip(row: CallSummary): string[] {
  return [
    wrapped(placedName(row.function)),
    `exclusive ${duration(row.exclusive_us)}, inclusive ${duration(row.inclusive_us)}; expected ${duration(row.expected_us)}`,
    `${duration(row.severity_us)} lost, score ${digits(row.score)}`,
    `${ranked(keyOf(row), programs.value)}, thread ${row.thread}${row.node ? `, node ${row.node}` : ''}, step ${exact(row.step)}`,
    `${sinceStart(row.entry_us - zero_us.value)} to ${row.exit_us === 0 ? openEnd(status.value?.state === 'ended') : sinceStart(row.exit_us - zero_us.value)}`,
    wallClock(row.entry_us),
    'click: why?',
  ];
}

function CallTable({ rows, names }: { rows: readonly CallSummary[]; names: ReadonlyMap<string, ShortName> }) {
  return (
    <table>
      <thead>
        <tr>
          <th>function</th>
          <th class="number">rank</th>
          <th class="number">step</th>
          <th class="number">lost</th>
          <th class="number">× usual</th>
          <th>call</th>
          <th>node</th>
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={row.id}>
            <td class="name" title={row.function}>
              {names.get(row.function)?.text}
            </td>
            <td class="number">{programs.value > 1 ? keyOf(row) : row.rank}</td>
            <td class="number">{exact(row.step)}</td>
            <td class="number">{duration(row.severity_us)}</td>
            <td class="number">{row.expected_us > 0 ? ratio(took(row) / row.expected_us) : '–'}</td>
            <td>{row.id}</td>
            <td>
              <NodeLink name={row.node} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
