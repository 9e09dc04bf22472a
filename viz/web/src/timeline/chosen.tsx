import { useMemo } from 'preact/hooks';
import { callAnswer } from '../shared/names/answer';
import { showCommand } from '../shared/asking/commands';
import { placedName, shorten, shortenAll } from '../shared/names/names';
import { clock, duration } from '../shared/units/units';
import { abnormalIn, numbered, sourceText, spotLines } from './model/timelinewords';
import { addressOf, follow, view } from '../shared/address/address';
import { detail, wording } from '../calls/calls';
import { copy } from '../shared/session/page';
import { run, zero_us } from '../shared/session/session';
import { Triangle } from '../shared/charts/mark';
import * as timeline from './timeline';
import { IncidentLink } from '../shared/parts/incidentlink';
import { Menu } from '../shared/parts/menu';
import { Panel } from '../shared/parts/panel';

/** Most calls in the list; zooming in finds more. */
const MOST_LISTED = 100;

/** The selected call, with links to its pages. */
export function Chosen() {
  const { call } = view.value;
  const record = timeline.record.value;
  const spot = timeline.chosen.value;
  const all = timeline.found.value.value;
  return (
    <Panel name="chosen" title={call === null ? 'Abnormal calls' : 'Selected call'} summary={call === null ? 'None.' : `Call ${call}.`}>
      <p class="hint" data-source>
        {all !== null && sourceText(all)}
      </p>
      {call === null ? (
        <p class="hint">
          Click a bar to select its call, or press ] for the next abnormal call. Drag to zoom, Shift-drag to pan; E, then drag, lists the functions of a time.
        </p>
      ) : (
        <div class="chosen-call">
          <p class="chosen-head">
            {record !== null ? (
              <strong>{callAnswer(record, wording.value.metric, wording.value.programs)}</strong>
            ) : (
              <span>
                {detail.error.value === null ? `Reading call ${call}…` : 'This call has no record: only abnormal calls and some normal ones have one.'}
              </span>
            )}
            <span class="space" />
            {record !== null && (
              <a
                class="button"
                href={addressOf({ page: 'call', call })}
                onClick={(event) => follow(event, { page: 'call', call })}
                title="Everything kept about it (Enter)"
              >
                Why
              </a>
            )}
            {record !== null && record.incident_id !== '' && <IncidentLink id={record.incident_id} isButton />}
            <Menu label="Copy the selected call" text="Copy ▾" items={() => copies(call, record?.function ?? null)} />
          </p>
          {spot !== null && (
            <ul class="chosen-lines">
              {spotLines(timeline.scene.value, spot, wording.value)
                .slice(0, -1)
                .map((line, at) => (
                  <li key={at} title={line}>
                    {at === 0 ? shorten(line, 60).text : line}
                  </li>
                ))}
            </ul>
          )}
        </div>
      )}
      <AbnormalCalls />
    </Panel>
  );
}

/** Abnormal calls in the picture, the most time lost first. */
function AbnormalCalls() {
  const all = timeline.found.value.value;
  const [shown, { programs }] = [timeline.rested.value, wording.value];
  const found = useMemo(() => (all === null ? [] : abnormalIn(all, shown).slice(0, MOST_LISTED)), [all, shown]);
  const names = useMemo(
    () =>
      shortenAll(
        found.map(({ call }) => call.function),
        40,
      ),
    [found],
  );
  if (found.length === 0) return null;
  return (
    <ol class="abnormal-calls" aria-label="Abnormal calls in this time, the worst first">
      {found.map(({ id, rank, call }) => (
        <li key={id}>
          <button
            class="abnormal-call"
            aria-pressed={view.value.call === id}
            data-abnormal={id}
            title={placedName(call.function)}
            onClick={() => timeline.choose(id, [call.entry_us, call.entry_us + call.inclusive_us])}
          >
            <Triangle />
            <code>{names.get(call.function)?.text}</code>
            <span class="abnormal-where">
              rank {numbered(rank, programs)}, {clock(call.entry_us - zero_us.value)}
            </span>
            <span class="abnormal-lost">+{duration(call.severity_us)}</span>
          </button>
        </li>
      ))}
    </ol>
  );
}

function copies(call: string, name: string | null): { text: string; title: string; act: () => void }[] {
  const directory = run.value.value?.directory;
  return [
    { text: 'Id', title: call, act: () => void copy(call) },
    ...(name === null ? [] : [{ text: 'Function', title: 'Full name', act: () => void copy(name) }]),
    ...(directory === undefined
      ? []
      : [{ text: 'Command', title: 'Everything kept about it, in the terminal', act: () => void copy(showCommand(directory, call)) }]),
  ];
}
