import { compareCommand, queryCommand, quoted, showCommand } from '../../lib/commands';
import { ranked } from '../../lib/answer';
import { duration } from '../../lib/units';
import { formatRange, type View } from '../../lib/view';
import { addressOf, go, view } from '../../state/address';
import { copy, say } from '../../state/page';
import { programs, run } from '../../state/session';
import { follow } from './statusbar';

/** Where we are, what limits the table, and how to take it elsewhere. */
export function Crumbs() {
  const { page, call, compare, rank, steps, function: name, severity_us } = view.value;
  const up = { page: 'overview', call: null } as const;
  const toCompare = { page: 'compare', compare: '' } as const;
  return (
    <nav class="crumbs" aria-label="Where">
      <a href={addressOf(up)} onClick={(event) => follow(event, up)}>
        {view.value.run}
      </a>
      {page === 'call' && call !== null && <CallCrumbs id={call} />}
      {page === 'compare' && (
        <>
          <span aria-hidden="true">›</span>
          <span aria-current="page">compared with {compare || '…'}</span>
        </>
      )}
      <span class="chips">
        {rank !== null && <Chip text={ranked(rank, programs.value)} drop={{ rank: null }} />}
        {steps !== null && <Chip text={`step ${formatRange(steps)}`} drop={{ steps: null }} />}
        {name !== '' && <Chip text={`function ${name}`} drop={{ function: '' }} />}
        {severity_us > 0 && <Chip text={`severity ≥ ${duration(severity_us)}`} drop={{ severity_us: 0 }} />}
      </span>
      <span class="space" />
      <a href={addressOf(toCompare)} onClick={(event) => follow(event, toCompare)} title="What changed since another run (V)">
        Compare
      </a>
      <button class="quiet" onClick={copyLink} title="Copy the address of this picture (C)">
        Copy link
      </button>
      <button class="quiet" onClick={copyCommand} title="The same question in the terminal (Shift+C)">
        Copy command
      </button>
      <button class="quiet" onClick={copyView} title="Command that opens this picture elsewhere">
        Copy view
      </button>
    </nav>
  );
}

function CallCrumbs({ id }: { id: string }) {
  const [program, rank, step, row] = id.split(':') as [string, string, string, string];
  const key = `${program}:${rank}`;
  const toRank: Partial<View> = { page: 'calls', call: null, rank: key, steps: null, cursor: null };
  const toStep: Partial<View> = { ...toRank, steps: [Number(step), Number(step)] };
  return (
    <>
      <span aria-hidden="true">›</span>
      <a href={addressOf(toRank)} onClick={(event) => follow(event, toRank)}>
        {ranked(key, programs.value)}
      </a>
      <span aria-hidden="true">›</span>
      <a href={addressOf(toStep)} onClick={(event) => follow(event, toStep)}>
        step {step}
      </a>
      <span aria-hidden="true">›</span>
      <span aria-current="page">call #{row}</span>
    </>
  );
}

function Chip({ text, drop }: { text: string; drop: Partial<View> }) {
  return (
    <button class="chip" onClick={() => go({ ...drop, cursor: null })} aria-label={`Drop filter ${text}`} title="Drop this filter">
      {text} <span aria-hidden="true">×</span>
    </button>
  );
}

/** A command without the run's folder would be about another run. */
const NOT_KNOWN_YET = 'The run is still being read: try again in a moment.';

export const copyLink = (): void => void copy(location.href);

/** The command that answers what the page shows. */
export function copyCommand(): void {
  const directory = run.value.value?.directory;
  if (directory === undefined) return say(NOT_KNOWN_YET);
  const { page, call, compare } = view.value;
  if (page === 'compare' && compare !== '') return void copy(compareCommand(directory, compare));
  void copy(page === 'call' && call !== null ? showCommand(directory, call) : queryCommand(directory, view.value));
}

function copyView(): void {
  const directory = run.value.value?.directory;
  if (directory === undefined) return say(NOT_KNOWN_YET);
  void copy(`chimbuko view ${quoted(directory)} --open ${quoted('/' + addressOf({}).replace(/^.*?(?=r\/)/, ''))}`);
}
