import { between, change, decisive, lost, positionOf, reachOf, runtimesOf, shiftSummary, ticksOf, VERDICT_MARKS, VERDICT_WORDS } from './model/comparison';
import { placedName, wrapped, type ShortName } from '../shared/names/names';
import { duration, exact, plural, signed } from '../shared/units/units';
import { go, view } from '../shared/address/address';
import { hideTip, showTip } from '../shared/session/page';
import { Empty, Panel } from '../shared/parts/panel';
import type { Shift } from '../shared/api/types';

interface Props {
  shifts: readonly Shift[];
  names: ReadonlyMap<string, ShortName>;
  /** Number of all functions, of which the worst are listed. */
  all: number;
}

/** Change of each function's runtime with its confidence interval, the most important first. */
export function Shifts({ shifts, names, all }: Props) {
  const named = shifts.filter((shift) => decisive(shift).verdict === 'slower' || decisive(shift).verdict === 'faster').length;
  const reach = reachOf(shifts);
  const summary = named === 0 ? 'No function is certainly slower or faster.' : `${plural(named, 'function')} ${named === 1 ? 'is' : 'are'} slower or faster.`;
  const actions = <span class="unit">▲ slower ▼ faster = as before · undecided{all > shifts.length && `; ${shifts.length} of ${exact(all)}`}</span>;
  return (
    <Panel
      name="shifts"
      title="Single calls, against all others"
      summary={summary}
      actions={actions}
      table={() => <ShiftTable shifts={shifts} names={names} />}
    >
      {shifts.length === 0 ? (
        <Empty>The runs have no function in common.</Empty>
      ) : (
        <>
          <div class="shift-axis" aria-hidden="true">
            <span class="shift-plot">
              {ticksOf(reach).map((tick) => (
                <span key={tick} class="shift-tick" style={{ left: `${100 * positionOf(tick, reach)}%` }}>
                  {tick === 0 ? '0' : `${signed(Math.round(100 * tick), exact)} %`}
                </span>
              ))}
            </span>
            <span class="shift-value">lost in all</span>
          </div>
          <ol>
            {shifts.map((shift, at) => (
              <li key={`${shift.program} ${shift.name}`}>
                <ShiftRow shift={shift} text={names.get(shift.name)?.text ?? shift.name} reach={reach} isFirst={at === 0} />
              </li>
            ))}
          </ol>
        </>
      )}
    </Panel>
  );
}

function ShiftRow({ shift, text, reach, isFirst }: { shift: Shift; text: string; reach: number; isFirst: boolean }) {
  const chosen = view.value.function === '' ? isFirst : view.value.function === shift.name;
  const show = (element: HTMLElement, delay?: number): void => {
    const box = element.getBoundingClientRect();
    showTip({ x: box.left + 8, y: box.bottom - 4, lines: tipOf(shift) }, delay);
  };
  return (
    <button
      class={`shift-row ${decisive(shift).verdict}${chosen ? ' selected' : ''}`}
      data-shift={shift.name}
      data-verdict={decisive(shift).verdict}
      aria-pressed={chosen}
      onClick={() => go({ function: shift.name })}
      onPointerEnter={(event) => show(event.currentTarget)}
      onPointerLeave={hideTip}
      onFocus={(event) => show(event.currentTarget, 0)}
      onBlur={hideTip}
    >
      <span class="shift-mark">
        <span aria-hidden="true">{VERDICT_MARKS[decisive(shift).verdict]}</span>
        <span class="hidden">{VERDICT_WORDS[decisive(shift).verdict]}: </span>
      </span>
      <span class="function-name">
        {text} {shift.is_waiting && <em>waits</em>}
      </span>
      <span class="shift-change">
        {change(decisive(shift).effect)}
        <span class="hidden">, {between(shift)}</span>
      </span>
      <Interval shift={shift} reach={reach} />
      <span class="shift-value">{lost(shift)}</span>
    </button>
  );
}

function Interval({ shift, reach }: { shift: Shift; reach: number }) {
  const { low: lower, effect, high: upper } = decisive(shift);
  if (effect === null || lower === null || upper === null) return <span class="shift-plot unit">too few calls</span>;
  const [low, at, high] = [lower, effect, upper].map((share) => 100 * positionOf(share, reach)) as [number, number, number];
  return (
    <span class="shift-plot">
      <span class="shift-zero" />
      <span class="shift-interval" style={{ left: `${low}%`, width: `${Math.max(0.5, high - low)}%` }} />
      {at > 0 && at < 100 ? (
        <span class="shift-dot" style={{ left: `${at}%` }} />
      ) : (
        <span class={`shift-beyond ${at > 0 ? 'right' : 'left'}`}>{at > 0 ? '▸' : '◂'}</span>
      )}
    </span>
  );
}

function tipOf(shift: Shift): string[] {
  return [
    wrapped(placedName(shift.name)),
    `${VERDICT_WORDS[decisive(shift).verdict]}: ${change(decisive(shift).effect)} against the others, with 95 % confidence ${between(shift)}`,
    shiftSummary(shift),
    `lost in all: ${lost(shift)}${shift.is_waiting ? '; judging by its name, it waits for others' : ''}`,
    'click: distribution of its runtimes',
  ];
}

function ShiftTable({ shifts, names }: { shifts: readonly Shift[]; names: ReadonlyMap<string, ShortName> }) {
  return (
    <table>
      <thead>
        <tr>
          <th />
          <th>function</th>
          {['against others', '95 %', 'lost', 'before', 'after', 'change', 'calls before', 'calls after'].map((heading) => (
            <th key={heading} class="number">
              {heading}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {shifts.map((shift) => (
          <tr key={`${shift.program} ${shift.name}`}>
            <td title={VERDICT_WORDS[decisive(shift).verdict]}>{VERDICT_MARKS[decisive(shift).verdict]}</td>
            <td class="name" title={shift.name}>
              {names.get(shift.name)?.text}
            </td>
            <td class="number">{change(decisive(shift).effect)}</td>
            <td class="number">{between(shift)}</td>
            <td class="number">{lost(shift)}</td>
            {runtimesOf(shift).map((us, at) => (
              <td key={at} class="number">
                {us === null ? 'unknown' : duration(us)}
              </td>
            ))}
            <td class="number">{change(decisive(shift).raw)}</td>
            {shift.calls.map((calls, at) => (
              <td key={at} class="number">
                {exact(calls)}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
