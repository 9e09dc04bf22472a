import { ranked } from '../../shared/names/answer';
import { MOST_STEPS, total } from './model/history';
import type { Series } from './model/steplayout';
import { exact, plural } from '../../shared/units/units';
import { formatRange } from '../../shared/address/model/ranges';
import { go, view } from '../../shared/address/address';
import { showNow, showSteps, shownSteps } from '../heatmap/grid';
import { hasSelection, series, steps } from './histories';
import { programs } from '../../shared/session/session';
import { Mark } from '../../shared/charts/mark';
import { Empty, Panel, Reading } from '../../shared/parts/panel';
import { toggle } from '../choose';
import { MeasureChoice } from '../measurechoice';
import { StepChart } from './stepchart';
import { StepTable } from './steptable';

/** Time lost or anomalies per step, of the selected ranks or of those that lead the ranking. */
export function Steps() {
  const shown = series.value;
  const zoom = shownSteps.value;
  const ready = shown.some((one) => one.rows.length > 0);
  return (
    <Panel
      name="steps"
      title="Steps"
      summary={summaryOf(shown)}
      actions={
        <>
          <MeasureChoice label="Measure of the heights" />
          <Legend shown={shown} />
        </>
      }
      asks={{ json: ['steps', shown.map((one) => ['rank', one.rank] as const)], hasSql: shown.length > 0 }}
      table={() => <StepTable series={shown} zoom={zoom} />}
    >
      {ready ? (
        <StepChart series={shown} zoom={zoom} />
      ) : steps.error.value !== null ? (
        <Empty>{steps.error.value}</Empty>
      ) : steps.value.value === null && shown.length > 0 ? (
        <Reading what="steps" />
      ) : (
        <Empty>No step has been analysed yet.</Empty>
      )}
    </Panel>
  );
}

function Legend({ shown }: { shown: readonly Series[] }) {
  const { steps: chosen } = view.value;
  const zoom = shownSteps.value;
  return (
    <>
      <span class="legend">
        {shown.map(({ rank, slot }) => (
          <span key={rank} class="legend-item" data-legend={rank}>
            <Mark slot={slot} />
            {programs.value > 1 ? rank : rank.split(':')[1]}
            {hasSelection.value && (
              <button class="drop" aria-label={`Remove ${ranked(rank, programs.value)}`} onClick={() => toggle(rank)}>
                ×
              </button>
            )}
          </span>
        ))}
      </span>
      {!hasSelection.value && shown.length > 0 && <span class="unit">leading ranks</span>}
      {zoom === null && shown.some((one) => one.from > 0) && <span class="unit">newest {exact(MOST_STEPS)} steps; zoom the heat map for older ones</span>}
      <ShownSteps />
      {chosen !== null && zoom === null && chosen[0] !== chosen[1] && (
        <button class="quiet" onClick={() => showSteps(chosen, 'push')} title="Show only the selected steps (F)">
          zoom to {formatRange(chosen)}
        </button>
      )}
    </>
  );
}

/** Steps that are shown, where these are not all, with ways to show others. */
function ShownSteps() {
  const zoom = shownSteps.value;
  if (zoom === null) return null;
  return (
    <>
      <button class="quiet" onClick={() => go({ zoom: null, newest: 0 })} title="All steps; follow new ones (L)">
        steps {formatRange(zoom)} → all
      </button>
      {view.value.newest === 0 && (
        <button class="quiet" onClick={showNow} title="The newest steps; follow new ones">
          → now
        </button>
      )}
    </>
  );
}

function summaryOf(shown: readonly Series[]): string {
  const analysed = shown.reduce((sum, one) => sum + one.rows.length, 0);
  const found = total(shown.map((one) => one.rows));
  return `${plural(shown.length, 'rank')}, ${exact(analysed)} analysed steps, ${exact(found)} anomalies. Arrow keys move from step to step, Enter lists the calls.`;
}
