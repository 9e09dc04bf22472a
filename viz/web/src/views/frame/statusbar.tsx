import { signal } from '@preact/signals';
import { clock, count, duration, exact, percent, sinceStart } from '../../lib/units';
import { addressOf, go } from '../../state/address';
import { helpOpen } from '../../state/page';
import { arrivedWhilePaused, lostAt, paused, run, status, togglePause } from '../../state/session';
import { theme, toggleTheme } from '../../state/theme';

/** Ticks once a second, for ages that grow while nothing arrives. */
const now = signal(Date.now());
setInterval(() => (now.value = Date.now()), 1000);

const WORDS = {
  live: ['●', 'Live'],
  behind: ['◐', 'Behind'],
  stale: ['◌', 'Stale'],
  ended: ['■', 'Ended'],
  lost: ['✕', 'No link'],
  paused: ['‖', 'Paused'],
  unknown: ['…', 'Connecting'],
} as const;

type Word = keyof typeof WORDS;

const HOME = { page: 'overview', call: null } as const;

function state(): Word {
  if (lostAt.value !== null) return 'lost';
  if (paused.value) return 'paused';
  return status.value?.state ?? 'unknown';
}

/** What happened, what is shown, what to do; nothing where all is well. */
function sentence(word: Word): string {
  const shown = status.value;
  const asOf = shown === null ? 'nothing yet' : `as of ${sinceStart(shown.clock_us)}`;
  if (word === 'lost') {
    const age = Math.max(0, Math.round((now.value - (lostAt.value ?? now.value)) / 1000));
    return `Connection lost ${age} s ago, retrying. Is the server running, and the SSH tunnel open? Shown: ${asOf}.`;
  }
  if (word === 'paused') return `Paused at ${asOf.replace('as of ', '')} · ${count(arrivedWhilePaused.value)} new anomalies · Space resumes.`;
  return word === 'ended' ? '' : (shown?.sentence ?? '');
}

export function StatusBar() {
  const word = state();
  const [sign, name] = WORDS[word];
  const shown = status.value;
  return (
    <header>
      <div class="bar">
        <a class="run" href={addressOf(HOME)} onClick={(event) => follow(event, HOME)}>
          {run.value.value?.name ?? '…'}
        </a>
        <span class={`state ${word}`} data-state={word} role="status">
          <span aria-hidden="true">{sign}</span> {name}
          {word === 'ended' && <span class="end">{shown?.sentence}</span>}
        </span>
        {shown && (
          <>
            <Fact label="run clock" value={clock(shown.clock_us)} />
            {shown.lag_us !== null && <Fact label="lag" value={duration(shown.lag_us)} />}
            <Fact label="loss" value={percent(shown.loss)} title={lossTitle(shown.losses)} warn={(shown.loss ?? 0) > 0} />
            <Fact label="ranks" value={`${exact(shown.ranks_reporting)}/${exact(shown.ranks)}`} title="ranks that report, of those known" />
            <Fact label="anomalies" value={`▲ ${count(shown.anomalies)}`} title={`${exact(shown.anomalies)} anomalies`} />
          </>
        )}
        <span class="space" />
        <button onClick={togglePause} aria-pressed={paused.value} title="Freeze the picture; data keeps coming (Space)">
          {paused.value ? 'Resume' : '‖ Pause'}
        </button>
        <button onClick={toggleTheme} title="Light or dark">
          {theme.value === 'dark' ? 'Light' : 'Dark'}
        </button>
        <button onClick={() => (helpOpen.value = true)} title="Keys (?)" aria-label="Help">
          ?
        </button>
      </div>
      {sentence(word) !== '' && <p class={`banner ${word}`}>{sentence(word)}</p>}
    </header>
  );
}

function Fact({ label, value, title, warn }: { label: string; value: string; title?: string; warn?: boolean }) {
  return (
    <span class={warn ? 'fact warn' : 'fact'} title={title} data-fact={label}>
      <small>{label}</small> {value}
    </span>
  );
}

function lossTitle(losses: Record<string, number>): string {
  const kinds = Object.entries(losses).map(([kind, number]) => `${exact(number)} ${kind}`);
  return kinds.length === 0 ? 'steps not analysed, of all' : `not analysed: ${kinds.join(', ')}; counts are lower bounds`;
}

/** Follow a link inside the page, unless the click means another tab. */
export function follow(event: MouseEvent, change: Parameters<typeof go>[0]): void {
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
  event.preventDefault();
  go(change);
}
