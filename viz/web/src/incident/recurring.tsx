import { CallTimeline } from '../call/calltimeline';
import { DistributionPanel, type RuntimeMark } from '../function/distribution';
import { showCommand } from '../shared/asking/commands';
import { shorten } from '../shared/names/names';
import { duration, exact, percent, sinceStart } from '../shared/units/units';
import { recurrenceRequest } from '../shared/api/requests';
import { addressOfApi } from '../shared/api/http';
import { copy } from '../shared/session/page';
import { run, zero_us } from '../shared/session/session';
import { FunctionLink } from '../shared/parts/functionlink';
import { Menu, type MenuItem } from '../shared/parts/menu';
import { Answer } from '../shared/parts/sentence';
import { Earlier, Frame, Go } from './frame';
import { Marks } from './marks';
import { examples, finding } from './recurringfinding';
import type { RecurrenceSummary } from '../shared/api/types';

const MOST_RANKS = 12;

/** Page of a recurring finding: how often it costs time, where, since when, and example calls. */
export function RecurringPage() {
  return (
    <Frame found={finding} noun="finding" look="recurring">
      {(answer) => <Page found={answer.summary} known={answer.known} />}
    </Frame>
  );
}

function Page({ found, known }: { found: RecurrenceSummary; known: string }) {
  const { recurrence, sentence, id } = found;
  const asks = { json: recurrenceRequest(id), command: (directory: string) => showCommand(directory, id) };
  const shown = examples.value.value ?? [];
  return (
    <>
      <div class="headline">
        <Answer sign="↻" text={sentence} />
        <Go to={{ page: 'calls', incident: id, label: 'any', call: null, cursor: null }} text="Its calls" isButton />
        <Menu label="Copy this finding" text="Copy ▾" items={() => copies(found)} quiet={false} />
      </div>
      <Earlier known={known} />
      <Marks of={found} />
      <Figures found={found} />
      <p class="place">
        {recurrence.functions.map((name) => (
          <FunctionLink key={name} name={name} program={recurrence.program} />
        ))}
      </p>
      <div class="call-panels incident-panels">
        {recurrence.function !== '' && <DistributionPanel asks={asks} marks={() => marksOf(found)} note={() => ''} />}
        {shown.map(({ record, normal }) => (
          <div key={record.id} class="twin" data-example={record.id}>
            <p class="place">
              <Go
                to={{ page: 'call', call: record.id, incident: null }}
                text={`${shorten(record.function).text} on rank ${record.rank}, ${duration(record.inclusive_us)}, at ${sinceStart(record.entry_us - zero_us.value)}`}
              />
            </p>
            <CallTimeline record={record} normal={normal} />
          </div>
        ))}
      </div>
      {recurrence.examples.length > shown.length && (
        <p class="place">
          More examples:{' '}
          {recurrence.examples.slice(shown.length).map((call) => (
            <Go key={call} to={{ page: 'call', call, incident: null }} text={`${call} `} />
          ))}
        </p>
      )}
      {recurrence.examples.length === 0 && <p class="note">None of its calls is on record: the finding comes from statistics of the calls' runtimes.</p>}
    </>
  );
}

/** Marks on the distribution of the function's runtimes: usual and slow, or at first and now. */
function marksOf({ recurrence: { usual_us, typical_us, kind } }: RecurrenceSummary): RuntimeMark[] {
  if (usual_us === 0) return [];
  const isDrift = kind === 'drift';
  return [
    { sign: '○', us: usual_us, text: `${isDrift ? 'at first' : 'usual'} ${duration(usual_us)}` },
    { sign: '▲', us: typical_us, text: `${isDrift ? 'now' : 'slow'} ${duration(typical_us)}` },
  ];
}

function Figures({ found: { recurrence } }: { found: RecurrenceSummary }) {
  const { ranks, node, callers, every_us, share, calls, cost_us, kind, begin_us, end_us, factor } = recurrence;
  const named = ranks.slice(0, MOST_RANKS).join(', ');
  const figures: [string, string][] = [
    ['kind', kind],
    ['time lost', duration(cost_us)],
    ['calls', calls === 0 ? '' : exact(calls)],
    ['share of all', share === 0 ? '' : percent(share)],
    ['times as long', factor === 1 ? '' : factor.toFixed(2)],
    [kind === 'slow mode' ? 'seen on ranks' : 'ranks', ranks.length > MOST_RANKS ? `${named} and ${exact(ranks.length - MOST_RANKS)} more` : named],
    ['node', node],
    ['called by', callers.map((name) => shorten(name).text).join(', ')],
    ['every', every_us === 0 ? '' : duration(every_us)],
    ['from', sinceStart(begin_us - zero_us.value)],
    ['to', sinceStart(end_us - zero_us.value)],
  ];
  return (
    <dl class="figures">
      {figures
        .filter(([, value]) => value !== '')
        .map(([name, value]) => (
          <div key={name} data-figure={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}

function copies({ id, sentence }: RecurrenceSummary): MenuItem[] {
  const directory = run.value.value?.directory;
  return [
    { text: 'Link', title: 'Address of this page (C)', act: () => void copy(location.href) },
    { text: 'Sentence', title: 'The finding, for a message', act: () => void copy(sentence) },
    { text: 'JSON address', title: 'Everything about it, from the API', act: () => void copy(addressOfApi(...recurrenceRequest(id)).href) },
    ...(directory === undefined ? [] : [{ text: 'Command', title: 'The same in the terminal (Shift+C)', act: () => void copy(showCommand(directory, id)) }]),
  ];
}
