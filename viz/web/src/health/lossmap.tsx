import { useId, useMemo, useState } from 'preact/hooks';
import { ranked } from '../shared/names/answer';
import { lossLayout, lostAt, nextLost, type LostSteps } from './model/lossmap';
import { exact, plural } from '../shared/units/units';
import { formatRange } from '../shared/address/model/ranges';
import { go } from '../shared/address/address';
import { gaps } from './health';
import { hideTip, showTip, spoken } from '../shared/session/page';
import { programs } from '../shared/session/session';
import { Empty, Panel, Reading } from '../shared/parts/panel';
import { onPage, positionIn } from '../shared/charts/pointer';
import { useSize } from '../shared/charts/size';
import { Table } from '../shared/parts/table';
import type { GapsAnswer } from '../shared/api/types';

/** Map of the lost steps, by rank. */
export function LossMap() {
  const answer = gaps.value.value;
  const lost = answer?.ranks ?? [];
  const steps = lost.reduce((sum, one) => sum + one.gap_steps, 0);
  const all = answer !== null && answer.lossy_ranks > lost.length ? `The ${lost.length} of ${exact(answer.lossy_ranks)} ranks that lost most: ` : '';
  const summary =
    lost.length === 0
      ? 'No rank lost a step.'
      : `${all}${plural(steps, 'step')} of ${plural(lost.length, 'rank')} ${steps === 1 ? 'was' : 'were'} not analysed.`;
  return (
    <Panel
      name="loss"
      title="Lost steps, rank × step"
      summary={summary}
      asks={{ json: ['gaps', []] }}
      table={lost.length > 0 ? () => <LossTable answer={answer as GapsAnswer} /> : undefined}
    >
      {answer === null ? (
        gaps.error.value === null ? (
          <Reading what="gaps" />
        ) : (
          <Empty>{gaps.error.value}</Empty>
        )
      ) : lost.length === 0 ? (
        <Empty>No rank lost a step: all steps were analysed.</Empty>
      ) : (
        <>
          <p class="unit">{summary} Hatched: nothing is known of them, counts of these ranks are lower bounds.</p>
          <Chart answer={answer} />
        </>
      )}
    </Panel>
  );
}

function Chart({ answer }: { answer: GapsAnswer }) {
  const { element, width } = useSize<HTMLDivElement>();
  const hatch = useId();
  const layout = useMemo(() => lossLayout(answer, width), [answer, width]);
  const [focus, setFocus] = useState<LostSteps | null>(null);
  const show = (found: LostSteps | null, delay?: number): void => {
    setFocus(found);
    if (found === null || element.current === null) return hideTip();
    const line = layout.lines.find((one) => one.of === found.of);
    showTip({ ...onPage(element.current, found.x + found.width, (line?.y ?? 0) + layout.barPx), lines: tipOf(found) }, delay);
  };
  const open = (found: LostSteps | null): void => {
    if (found !== null) go({ page: 'overview', selected: [found.of.rank], zoom: around(found) });
  };
  const move = (event: KeyboardEvent): void => {
    if (event.key.startsWith('Arrow')) {
      const next = nextLost(layout, focus, event.key);
      show(next, 0);
      if (next !== null) spoken.value = tipOf(next).slice(0, 2).join(', ');
    } else if (event.key === 'Enter') open(focus);
    else if (event.key === 'Escape' && focus !== null) show(null);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div
      ref={element}
      class="loss-chart"
      tabIndex={0}
      role="application"
      aria-roledescription="chart of lost steps"
      aria-label="Lost steps by rank"
      onPointerMove={(event) => {
        const { x, y } = positionIn(event);
        show(lostAt(layout, x, y));
      }}
      onPointerLeave={() => show(null)}
      onBlur={() => show(null)}
      onClick={() => open(focus)}
      onKeyDown={move}
    >
      {width > 0 && (
        <svg width={layout.width} height={layout.height} aria-hidden="true">
          <pattern id={hatch} width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
            <rect class="hatch-ground" width="5" height="5" />
            <line class="hatch-line" x1="0" x2="0" y1="0" y2="5" />
          </pattern>
          {layout.lines.map(({ of, y, lost }) => (
            <g key={of.rank}>
              <text class="loss-rank" x={layout.left - 8} y={y + layout.barPx - 1}>
                {ranked(of.rank, programs.value)}
              </text>
              <rect class="loss-read" x={layout.left} y={y} width={layout.right - layout.left} height={layout.barPx} />
              {lost.map((one) => (
                <rect
                  key={one.first}
                  class={one === focus ? 'loss-lost focused' : 'loss-lost'}
                  data-lost={`${of.rank} ${formatRange([one.first, one.last])}`}
                  fill={`url(#${hatch})`}
                  x={one.x}
                  y={y}
                  width={one.width}
                  height={layout.barPx}
                />
              ))}
            </g>
          ))}
          {layout.ticks.map(({ x, step }) => (
            <text key={step} class="loss-tick" x={x} y={layout.height - 6}>
              {exact(step)}
            </text>
          ))}
        </svg>
      )}
    </div>
  );
}

function tipOf({ of, first, last }: LostSteps): string[] {
  const number = last - first + 1;
  return [
    `${ranked(of.rank, programs.value)}: ${plural(number, 'step')} lost`,
    `step ${formatRange([first, last])}`,
    `of ${exact(of.gap_steps)} that this rank lost`,
    'what happened in these steps is unknown',
    'click: the rank around these steps',
  ];
}

/** The gap with a margin of its own length on either side. */
function around({ first, last }: LostSteps): [number, number] {
  const margin = Math.max(5, last - first + 1);
  return [Math.max(0, first - margin), last + margin];
}

function LossTable({ answer }: { answer: GapsAnswer }) {
  const rows = answer.ranks.flatMap((of) => of.gaps.map(([first, last]) => [of.rank, formatRange([first, last]), exact(last - first + 1)]));
  return <Table columns={[{ heading: 'rank' }, { heading: 'steps lost' }, { heading: 'number', isNumber: true }]} rows={rows} />;
}
