import { callAnswer } from '../shared/names/answer';
import { shorten } from '../shared/names/names';
import { duration, exact, ratio, score, sinceStart, wallClock } from '../shared/units/units';
import type { View } from '../shared/address/model/view';
import { addressOf, follow, view } from '../shared/address/address';
import { detail, wording } from './calls';
import { openEnd } from './model/callpoints';
import { IncidentLink } from '../shared/parts/incidentlink';
import { Empty, Panel, Reading } from '../shared/parts/panel';
import { Sign } from './calltable';
import { MiniTimeline } from './minitimeline';
import type { CallRecord } from '../shared/api/types';

/** The selected call: a sentence, its neighbours, its fields, and links to its pages. */
export function Selected() {
  const { call } = view.value;
  const found = detail.value.value?.record;
  const record = found?.id === call ? found : undefined;
  return (
    <Panel name="selected-call" title="Selected call" summary={record === undefined ? 'None.' : sentenceOf(record)}>
      {call === null ? (
        <Empty>Click a mark or a row to see it here, or press ] for the first anomaly.</Empty>
      ) : detail.error.value !== null ? (
        <Empty>{detail.error.value}</Empty>
      ) : record === undefined ? (
        <Reading what={`call ${call}`} />
      ) : (
        <Chosen record={record} />
      )}
    </Panel>
  );
}

const sentenceOf = (record: CallRecord): string => callAnswer(record, wording.value.metric, wording.value.programs);

function Chosen({ record }: { record: CallRecord }) {
  return (
    <>
      <h3 class="chosen-name" title={record.function}>
        <Sign row={record} /> {shorten(record.function, 28).text} #{record.id.split(':')[3]}
      </h3>
      <p class="chosen-sentence">{sentenceOf(record)}</p>
      <p class="ways-on">
        <Onward text="Timeline" title="What happened around it" to={{ page: 'timeline', call: record.id }} />
        <Onward text="Why" title="Everything kept about it" to={{ page: 'call', call: record.id }} />
        {record.incident_id !== '' && <IncidentLink id={record.incident_id} isButton />}
      </p>
      <Fields record={record} />
      <MiniTimeline record={record} />
    </>
  );
}

function Onward({ text, title, to }: { text: string; title: string; to: Partial<View> }) {
  return (
    <a class="button" href={addressOf(to)} title={title} onClick={(event) => follow(event, to)}>
      {text}
    </a>
  );
}

function Fields({ record }: { record: CallRecord }) {
  const { zero_us, metric, scoreUnit, isOver = false } = wording.value;
  const usual = record.expected_us > 0 ? `, ${ratio(record[`${metric}_us`] / record.expected_us)}` : '';
  const fields: [string, string][] = [
    ['inclusive', duration(record.inclusive_us)],
    ['exclusive', duration(record.exclusive_us)],
    ['expected', `${duration(record.expected_us)} ± ${duration(record.spread_us)}${usual}`],
    ['severity', record.label === 'anomaly' ? `${duration(record.severity_us)} lost` : 'normal'],
    ['score', score(record.score, scoreUnit)],
    ['children', exact(record.children)],
    ['messages', exact(record.messages_count)],
    ['rank, thread', `${record.program}:${record.rank}, ${record.thread}${record.is_gpu ? ' on a GPU' : ''}`],
    ['node', record.node || 'unknown'],
    ['step', exact(record.step)],
    ['entry', sinceStart(record.entry_us - zero_us)],
    ['exit', record.exit_us === 0 ? openEnd(isOver) : sinceStart(record.exit_us - zero_us)],
    ['time of day', wallClock(record.entry_us)],
    ['called by', record.call_stack[1] === undefined ? 'unknown' : shorten(record.call_stack[1].function, 28).text],
    ['call', record.id],
  ];
  return (
    <dl class="fields">
      {fields.map(([name, text]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{text}</dd>
        </div>
      ))}
    </dl>
  );
}
