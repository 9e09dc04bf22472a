import { useMemo } from 'preact/hooks';
import { ranked } from '../../lib/answer';
import { total } from '../../lib/history';
import type { Series } from '../../lib/scatter';
import { exact, plural } from '../../lib/units';
import { formatRange } from '../../lib/view';
import { go, view } from '../../state/address';
import { hasSelection, histories, slots, steps } from '../../state/histories';
import { programs } from '../../state/session';
import { Mark } from '../parts/mark';
import { Empty, Panel, Reading } from '../parts/panel';
import { select } from './ranks';
import { StepChart } from './stepchart';
import { StepTable } from './steptable';

/** Anomalies per step of the selected ranks, or of those that lead the ranking. */
export function Steps() {
  const shown = histories.value;
  const series = useMemo<Series[]>(
    () => slots.value.flatMap((rank, slot) => (rank === null ? [] : [{ rank, slot, rows: shown.get(rank) ?? [] }])),
    [slots.value, shown],
  );
  const ready = series.some((one) => one.rows.length > 0);
  return (
    <Panel name="steps" title="Anomalies per step" summary={summaryOf(series)} actions={<Legend series={series} />} table={() => <StepTable series={series} zoom={view.value.zoom} />}>
      {ready ? (
        <StepChart series={series} zoom={view.value.zoom} />
      ) : steps.error.value !== null ? (
        <Empty>{steps.error.value}</Empty>
      ) : steps.value.value === null && series.length > 0 ? (
        <Reading what="steps" />
      ) : (
        <Empty>No analysed step yet.</Empty>
      )}
    </Panel>
  );
}

function Legend({ series }: { series: readonly Series[] }) {
  const { zoom, steps: range } = view.value;
  return (
    <>
      <span class="legend">
        {series.map(({ rank, slot }) => (
          <span key={rank} class="legend-item" data-legend={rank}>
            <Mark slot={slot} />
            {programs.value > 1 ? rank : rank.split(':')[1]}
            {hasSelection.value && (
              <button class="drop" aria-label={`Remove ${ranked(rank, programs.value)}`} onClick={() => select(rank)}>
                ×
              </button>
            )}
          </span>
        ))}
      </span>
      {!hasSelection.value && series.length > 0 && <span class="unit">leading ranks</span>}
      {zoom !== null && (
        <button class="quiet" onClick={() => go({ zoom: null })} title="All steps, and those to come (L)">
          steps {formatRange(zoom)} → all
        </button>
      )}
      {range !== null && zoom === null && range[0] !== range[1] && (
        <button class="quiet" onClick={() => go({ zoom: range })} title="Show only the chosen steps (F)">
          zoom to {formatRange(range)}
        </button>
      )}
    </>
  );
}

function summaryOf(series: readonly Series[]): string {
  const analysed = series.reduce((sum, one) => sum + one.rows.length, 0);
  const found = total(series.map((one) => one.rows));
  return `${plural(series.length, 'rank')}, ${exact(analysed)} analysed steps, ${exact(found)} anomalies. Arrow keys move from step to step, Enter lists the calls.`;
}
