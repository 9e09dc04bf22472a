import { callAnswer, ranked } from '../shared/names/answer';
import { judgedUs, signOf } from '../shared/names/calls';
import { callsCommand, showCommand } from '../shared/asking/commands';
import { isByPath, isFlagged, pathRange } from '../function/model/distribution';
import { statementCommand } from '../shared/asking/statements';
import { duration, exact, plural, sinceStart, wallClock } from '../shared/units/units';
import type { View } from '../shared/address/model/view';
import { callRequest, functionRequest } from '../shared/api/functionrequests';
import { addressOfApi } from '../shared/api/http';
import { addressOf, follow, view } from '../shared/address/address';
import { detail } from '../calls/calls';
import { copy } from '../shared/session/page';
import { programs, run, zero_us } from '../shared/session/session';
import { DistributionPanel, percentileText, type RuntimeMark } from '../function/distribution';
import { IncidentLink } from '../shared/parts/incidentlink';
import { Menu, type MenuItem } from '../shared/parts/menu';
import { Name } from '../shared/parts/name';
import { Empty, Reading } from '../shared/parts/panel';
import { Answer, Sentence } from '../shared/parts/sentence';
import { beside, incident } from './call';
import { Beside } from './beside';
import { CallTimeline } from './calltimeline';
import { Counters, Messages, NodeState } from './evidence';
import { Numbers } from './numbers';
import { RankMetadata, RawRecord } from './raw';
import { Stack } from './stack';
import type { CallDetail, CallRecord, Distribution } from '../shared/api/types';

/** Page of one call: everything that is kept about it, and a normal call for comparison. */
export function Detail() {
  const found = detail.value.value;
  return (
    <main class="detail">
      {found !== null && found.record.id === view.value.call ? (
        <Page found={found} />
      ) : detail.error.value !== null ? (
        <Missing words={detail.error.value} />
      ) : (
        <Reading what={`call ${view.value.call}`} />
      )}
    </main>
  );
}

/** Message for a call that is not in the store, with links to its rank and step. */
function Missing({ words }: { words: string }) {
  const [program = '0', rank = '0', step = '0'] = (view.value.call ?? '').split(':');
  const place: Partial<View> = { rank: `${program}:${rank}`, steps: [Number(step), Number(step)] };
  const beside: Partial<View> = { page: 'calls', call: null, cursor: null, ...place };
  const up: Partial<View> = { page: 'overview', call: null };
  return (
    <>
      <h1 class="answer">This call cannot be shown.</h1>
      <Empty command={(directory) => callsCommand(directory, place)}>
        {words}. <Go to={beside} text={`Calls of rank ${program}:${rank}, step ${step}`} /> · <Go to={up} text="Back to the run" />
      </Empty>
    </>
  );
}

function Go({ to, text, isButton }: { to: Partial<View>; text: string; isButton?: boolean }) {
  return (
    <a class={isButton ? 'button' : undefined} href={addressOf(to)} onClick={(event) => follow(event, to)}>
      {text}
    </a>
  );
}

function Page({ found }: { found: CallDetail }) {
  const { record, normal } = found;
  const metric = run.value.value?.config.metric ?? 'exclusive';
  const marks = (distribution: Distribution): RuntimeMark[] => runtimeMarks(record, normal, metric, distribution);
  return (
    <>
      <div class="headline">
        <Answer sign={record.label === 'anomaly' ? signOf(record, metric) : ''} text={callAnswer(record, metric, programs.value)} />
        {record.incident_id !== '' && <IncidentLink id={record.incident_id} isButton />}
        <Go to={{ page: 'timeline', call: record.id }} text="Timeline" isButton />
        <Go to={{ page: 'function', function: record.function, program: record.program, call: null, cursor: null }} text="Function" isButton />
        <Menu label="Copy this call" text="Copy ▾" items={() => copies(record)} quiet={false} />
      </div>
      <Because record={record} />
      <div class="subject">
        <Name name={record.function} />
        <p class="place">{placeText(record)}</p>
      </div>
      <div class="call-panels">
        <DistributionPanel
          asks={{ json: functionRequest({ program: record.program, name: record.function }) }}
          marks={marks}
          note={(distribution) => hindsight(record, metric, distribution)}
        />
        <CallTimeline record={record} normal={normal} />
        {(beside.value.value === null || beside.value.value.node !== null) && <Beside record={record} beside={beside} />}
        <Stack record={record} />
        <Messages record={record} />
        {record.node_state.length > 0 && <NodeState record={record} normal={normal} />}
        <Counters record={record} normal={normal} />
        <Numbers record={record} normal={normal} />
        <RankMetadata record={record} />
      </div>
      <RawRecord record={record} />
    </>
  );
}

/** Sentence of the call's incident. */
function Because({ record }: { record: CallRecord }) {
  const found = incident.value.value;
  if (found === null || record.incident_id === '') return null;
  const isOrigin = found.incident.call_id === record.id;
  return (
    <p class="because" data-because>
      {isOrigin ? 'This call is the origin of its incident' : 'This call is a consequence of another one'}: <Sentence text={found.summary.sentence} />
    </p>
  );
}

/** Rank, thread, node, step and time of the call, and whether its window is complete. */
function placeText(record: CallRecord): string {
  const parts = [
    `${ranked(`${record.program}:${record.rank}`, programs.value)}, thread ${record.thread}${record.is_gpu ? ' on a GPU' : ''}`,
    record.node && `node ${record.node}`,
    `step ${exact(record.step)}`,
    `entered ${sinceStart(record.entry_us - zero_us.value)} (${wallClock(record.entry_us)})`,
    !record.is_final && 'the calls after it are still being recorded',
  ];
  return parts.filter((part) => part !== false && part !== '').join(' · ');
}

/** Marks on the distribution: the call and its percentile, the normal call, and the runtime that was expected. */
function runtimeMarks(record: CallRecord, normal: CallRecord | null, metric: 'exclusive' | 'inclusive', distribution: Distribution): RuntimeMark[] {
  const took = judgedUs(record, metric);
  const place = percentileText(took, distribution);
  const usual =
    record.expected_us > 0
      ? [
          {
            sign: '┊',
            us: record.expected_us,
            text: `expected ${isByPath(record, took, distribution) ? 'on this call path' : 'then'} ${duration(record.expected_us)}`,
          } as const,
        ]
      : [];
  const twin = normal === null ? [] : [{ sign: '◎', us: judgedUs(normal, metric), text: `normal call ${duration(judgedUs(normal, metric))}` } as const];
  return [{ sign: signOf(record, metric), us: took, text: `this call ${duration(took)}${place && `, ${place}`}` }, ...twin, ...usual];
}

/** Note that the call was judged by what was known then, while the picture shows what is known now. */
function hindsight(record: CallRecord, metric: 'exclusive' | 'inclusive', distribution: Distribution): string {
  if (isByPath(record, judgedUs(record, metric), distribution)) {
    return `It was judged by the ${pathRange(record)}. The limits shown are those of all calls of the function, which are longer on other paths.`;
  }
  const then = `It was judged when ${plural(record.seen, 'call')} of the function ${record.seen === 1 ? 'was' : 'were'} known`;
  const differs = (record.label === 'anomaly') !== isFlagged(judgedUs(record, metric), distribution);
  return differs ? `${then}; by what is known now it would ${record.label === 'anomaly' ? 'not ' : ''}be flagged.` : `${then}.`;
}

function copies(record: CallRecord): MenuItem[] {
  const directory = run.value.value?.directory;
  const shown: MenuItem[] = [
    { text: 'Link', title: 'Address of this page (C)', act: () => void copy(location.href) },
    { text: 'JSON address', title: 'The record, from the API', act: () => void copy(addressOfApi(...callRequest(record.id)).href) },
    { text: 'Record as JSON', act: () => void copy(JSON.stringify(record)) },
  ];
  if (directory === undefined) return shown;
  return [
    ...shown,
    { text: 'Command', title: 'The same call in the terminal (Shift+C)', act: () => void copy(showCommand(directory, record.id)) },
    { text: 'SQL', title: 'Its numbers, from the database', act: () => void copy(statementCommand(directory, callRequest(record.id))) },
  ];
}
