import { ranked } from '../../shared/names/answer';
import { MOST_STEPS, total } from './model/history';
import type { Series } from './model/steplayout';
import { totalOf } from './model/timelayout';
import { PARTS } from '../model/budgetparts';
import { columnUnit, exact, inUnit, plural } from '../../shared/units/units';
import { formatRange } from '../../shared/address/model/ranges';
import { COURSES, type Course } from '../../shared/address/model/view';
import { go, view } from '../../shared/address/address';
import { showNow, showSteps, shownSteps } from '../heatmap/grid';
import { hasSelection, series, steps } from './histories';
import { course, times, timesAsked } from './times';
import { happened } from '../overview';
import { programs } from '../../shared/session/session';
import { Mark } from '../../shared/charts/mark';
import { Empty, Panel, Reading } from '../../shared/parts/panel';
import { Table } from '../../shared/parts/table';
import { toggle } from '../choose';
import { MeasureChoice } from '../measurechoice';
import { StepChart } from './stepchart';
import { StepTable } from './steptable';
import { TimeChart } from './timechart';
import type { StepTime, StepTimes } from '../../shared/api/types';

const NAMES: Record<Course, string> = { time: 'time of threads', ranks: 'single ranks' };

/** What happened step by step: where the time of threads went or, as a choice, single ranks beside each other. */
export function Steps() {
  return course.value === 'time' ? <Times /> : <Ranks />;
}

function CourseChoice() {
  if (course.value !== view.value.course) return null;
  return (
    <select aria-label="What is shown over steps" value={view.value.course} onChange={(event) => go({ course: event.currentTarget.value as Course })}>
      {COURSES.map((course) => (
        <option key={course} value={course}>
          {NAMES[course]}
        </option>
      ))}
    </select>
  );
}

/** Time of threads over steps: of the selected ranks, or of all. */
function Times() {
  const known = times.value.value?.times ?? null;
  return (
    <Panel
      name="steps"
      title="Steps"
      summary={known === null ? '' : `${plural(known.times.length, 'bar')} of ${plural(known.length, 'step')} each. Arrow keys move, Enter chooses.`}
      actions={
        <>
          <CourseChoice />
          {known !== null && <PartLegend times={known} />}
          <ShownSteps />
        </>
      }
      asks={{ json: timesAsked.value }}
      table={known !== null ? () => <TimeTable times={known} /> : undefined}
    >
      {times.error.value !== null ? (
        <Empty>{times.error.value}</Empty>
      ) : known === null ? (
        <Reading what="steps" />
      ) : (
        <TimeChart times={known} zoom={shownSteps.value} happened={happened.value} />
      )}
    </Panel>
  );
}

function PartLegend({ times: { times: all, ranks } }: { times: StepTimes }) {
  const present = PARTS.filter((part) => all.some((one) => part.of(one) > 0));
  return (
    <>
      <span class="legend">
        {present.map(({ look, names }) => (
          <span key={look} class="legend-item">
            <i class={`part-mark ${look}`} />
            {namesOf(names, all)}
          </span>
        ))}
      </span>
      <span class="unit">{hasSelection.value ? plural(ranks, 'rank') : 'all ranks'}</span>
    </>
  );
}

/** Name of a part over all steps; both names where nodes were sampled in some of them only. */
function namesOf(names: readonly [sampled: string, otherwise: string], times: readonly StepTime[]): string {
  const [sampled, otherwise] = names;
  if (sampled === otherwise || times.every((one) => one.is_sampled)) return sampled;
  return times.some((one) => one.is_sampled) ? `${sampled} (${otherwise} where not sampled)` : otherwise;
}

/** Times as a table, the newest steps first. */
function TimeTable({ times: { times: all } }: { times: StepTimes }) {
  const unit = columnUnit(all.map(totalOf));
  const present = PARTS.filter((part) => all.some((one) => part.of(one) > 0));
  const columns = [
    { heading: 'first step', isNumber: true },
    ...present.map(({ names }) => ({ heading: `${namesOf(names, all)}, ${unit}`, isNumber: true })),
    { heading: 'anomalies', isNumber: true },
    { heading: `lost, ${unit}`, isNumber: true },
  ];
  const rows = all.map((one) => [exact(one.step), ...present.map(({ of }) => inUnit(of(one), unit)), exact(one.anomalies), inUnit(one.severity_us, unit)]);
  return <Table columns={columns} rows={rows.reverse()} />;
}

/** Time lost or anomalies per step, of the selected ranks or of those that lead the ranking. */
function Ranks() {
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
          <CourseChoice />
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
      {shownSteps.value === null && shown.some((one) => one.from > 0) && (
        <span class="unit">newest {exact(MOST_STEPS)} steps; zoom the heat map for older ones</span>
      )}
      <ShownSteps />
    </>
  );
}

/** Steps that are shown, where these are not all, with ways to show others, and to show only the chosen ones. */
function ShownSteps() {
  const { steps: chosen, newest } = view.value;
  const zoom = shownSteps.value;
  if (zoom === null) {
    if (chosen === null || chosen[0] === chosen[1]) return null;
    return (
      <button class="quiet" onClick={() => showSteps(chosen, 'push')} title="Show only the selected steps (F)">
        zoom to {formatRange(chosen)}
      </button>
    );
  }
  return (
    <>
      <button class="quiet" onClick={() => go({ zoom: null, newest: 0 })} title="All steps; follow new ones (L)">
        steps {formatRange(zoom)} → all
      </button>
      {newest === 0 && (
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
