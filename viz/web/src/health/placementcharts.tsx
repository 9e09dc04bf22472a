import { agreementOf, agreementText, splitOf, whereText } from './model/placement';
import { duration } from '../shared/units/units';
import type { AnalysisInterval, PredictedPlacement } from '../shared/api/types';

const SIDE_PX = 180;
const POINT_PX = 3;
const BAR_PX = 16;
const ROW_PX = 22;
const BARS_PX = 240;
/** Placements that are drawn; the table has those of large nodes, too. */
const MOST_BARS = 12;

const PARTS = [
  { part: 'application', words: 'application' },
  { part: 'both', words: 'both' },
  { part: 'analysis', words: 'analysis' },
] as const;

/** CPU time of each interval, measured and predicted from all others: on the diagonal both are equal. */
export function Agreement({ intervals }: { intervals: readonly AnalysisInterval[] }) {
  const { most_us, points } = agreementOf(intervals);
  const words = agreementText(intervals);
  const x = (share: number): number => POINT_PX + (SIDE_PX - 2 * POINT_PX) * share;
  const y = (share: number): number => SIDE_PX - x(share);
  return (
    <figure class="placement-figure">
      <svg width={SIDE_PX} height={SIDE_PX} role="img" aria-label={`Predicted against measured CPU time. ${words}`}>
        <line class="axis" x1={0} x2={SIDE_PX} y1={SIDE_PX - 0.5} y2={SIDE_PX - 0.5} />
        <line class="axis" x1={0.5} x2={0.5} y1={0} y2={SIDE_PX} />
        <line class="placement-same" x1={x(0)} y1={y(0)} x2={x(1)} y2={y(1)} />
        {points.map(({ measured, predicted }, at) => (
          <circle key={at} class="placement-point" cx={x(measured)} cy={y(predicted)} r={POINT_PX} />
        ))}
      </svg>
      <figcaption class="unit">
        Predicted (up) over measured (right), both from 0 to {duration(most_us)}. {words}
      </figcaption>
    </figure>
  );
}

/** Cores of the application and of the analysis in each placement, the best first. */
export function Split({ placements }: { placements: readonly PredictedPlacement[] }) {
  const shown = placements.slice(0, MOST_BARS);
  const splits = shown.map(splitOf);
  const most = Math.max(1, ...splits.map(({ application, both, analysis }) => application + both + analysis));
  const words = shown.map((one) => `${whereText(one)}: ${duration(one.step_us)}`).join('; ');
  return (
    <figure class="placement-figure">
      <svg width={BARS_PX + 90} height={shown.length * ROW_PX} role="img" aria-label={`Cores of each placement, and the length of a step. ${words}`}>
        {shown.map((one, row) => {
          const split = splits[row] ?? { application: 0, both: 0, analysis: 0 };
          let begin = 0;
          return (
            <g key={`${one.where}${one.cores}`} transform={`translate(0 ${row * ROW_PX})`}>
              {PARTS.map(({ part }) => {
                const from = begin;
                begin += split[part];
                const width = (BARS_PX * split[part]) / most;
                return width > 0 && <rect key={part} class={`placement-cores ${part}`} x={(BARS_PX * from) / most} y={2} width={width - 1} height={BAR_PX} />;
              })}
              <text class="placement-step" x={(BARS_PX * begin) / most + 6} y={BAR_PX - 2}>
                {duration(one.step_us)}
              </text>
            </g>
          );
        })}
      </svg>
      <figcaption class="unit">
        {PARTS.map(({ part, words: of }) => (
          <span key={part} class="placement-legend">
            <i class={`placement-key ${part}`} aria-hidden="true" /> {of}
          </span>
        ))}
        cores of the node, in the order of the table{shown.length < placements.length && ` (its first ${shown.length})`}, and the length of a step
      </figcaption>
    </figure>
  );
}
