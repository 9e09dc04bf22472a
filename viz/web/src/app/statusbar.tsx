import { SIGNS } from '../shared/session/model/status';
import { report } from '../shared/api/report';
import { clock, count, duration, exact, percent, wallClock } from '../shared/units/units';
import { addressOf, follow, view } from '../shared/address/address';
import { banner, condition } from '../shared/session/feed';
import { helpOpen } from '../shared/session/page';
import { canPause, paused, run, status, togglePause } from '../shared/session/session';
import { AppearanceChoice } from '../shared/parts/appearancechoice';
import { NarrowMenu } from './narrowmenu';
import { Search } from './search';

const HOME = { page: 'overview', call: null, cursor: null } as const;
const HEALTH = { page: 'health' } as const;

/** Bar at the top of every page: the run, its state, and how recent and how complete the data are. */
export function StatusBar() {
  return (
    <header>
      <div class="bar">
        <a class="run" href={addressOf(HOME)} onClick={(event) => follow(event, HOME)} title={run.value.value?.name}>
          {run.value.value?.name ?? '…'}
        </a>
        <State />
        <Facts />
        <span class="space" />
        {(paused.value || canPause.value) && (
          <button class="pause" onClick={togglePause} aria-pressed={paused.value} title="Freeze the view; data keep arriving (Space)">
            {paused.value ? '▶ Resume' : '‖ Pause'}
          </button>
        )}
        <Search />
        <AppearanceChoice />
        <button onClick={() => (helpOpen.value = true)} title="Keys and marks (?)" aria-label="Help">
          ?
        </button>
        <NarrowMenu />
      </div>
      <Banner />
      <ReportNote />
    </header>
  );
}

/** State of the feed, as a sign and a word. */
export function State() {
  const [sign, name] = SIGNS[condition.value];
  return (
    <span class={`state ${condition.value}`} data-state={condition.value}>
      <span aria-hidden="true">{sign}</span> {name}
      {condition.value === 'ended' && <span class="end">{status.value?.sentence}</span>}
    </span>
  );
}

function Facts() {
  const shown = status.value;
  if (shown === null) return null;
  const { clock_us, lag_us, last_step, loss, losses, ranks, ranks_reporting, anomalies } = shown;
  const isLossy = loss !== 0 || Object.keys(losses).length > 0;
  return (
    <>
      <Fact label="run clock" value={clock(clock_us)} title="Time of the trace that has been analysed, since its start" />
      {last_step !== null && <Fact label="step" value={exact(last_step)} title="Newest step that has been analysed" />}
      {lag_us !== null && <Fact label="lag" value={duration(lag_us)} title="Age of the newest analysed step" />}
      <Fact label="steps lost" value={percent(loss)} title={lossTitle(losses)} warn={isLossy} />
      <Fact label="ranks" value={`${exact(ranks_reporting)}/${exact(ranks)}`} title="ranks that report, of all known ranks" warn={ranks_reporting < ranks} />
      <Fact label="anomalies" value={`▲ ${count(anomalies)}`} title={`${exact(anomalies)} abnormal calls`} />
    </>
  );
}

function Banner() {
  if (banner.value === '') return null;
  const isPaused = condition.value === 'paused';
  return (
    <p class={`banner ${condition.value}`}>
      {banner.value}{' '}
      {isPaused && (
        <button class="quiet" onClick={togglePause}>
          Resume
        </button>
      )}
      {!isPaused && condition.value !== 'lost' && view.value.page !== 'health' && (
        <a href={addressOf(HEALTH)} onClick={(event) => follow(event, HEALTH)}>
          Open Health
        </a>
      )}
    </p>
  );
}

/** Note on a report, a page without a server: when it was made, and what it leaves out. */
function ReportNote() {
  if (report.value === null) return null;
  const { made_ms, directory, left_out } = report.value;
  return (
    <p class="banner report-note">
      A report of {wallClock(made_ms * 1000).slice(0, 16)} UTC. It leaves out: {left_out.join(', ')}. The whole run: <code>chimbuko view {directory}</code>
    </p>
  );
}

function Fact({ label, value, title, warn }: { label: string; value: string; title: string; warn?: boolean }) {
  return (
    <span class={warn ? 'fact warn' : 'fact'} title={title} data-fact={label}>
      <small>{label}</small> {value}
    </span>
  );
}

/** Steps that were not analysed, by the reason. */
export function lossTitle(losses: Record<string, number>): string {
  const kinds = Object.entries(losses).map(([kind, number]) => `${exact(number)} ${kind}`);
  return kinds.length === 0 ? 'share of all steps that were not analysed' : `not analysed: ${kinds.join(', ')}; counts are lower bounds`;
}
