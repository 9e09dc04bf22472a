import { callAnswer } from '../shared/names/answer';
import { showCommand } from '../shared/asking/commands';
import { shorten } from '../shared/names/names';
import { spotLines } from './model/timelinewords';
import { addressOf, follow, view } from '../shared/address/address';
import { detail, wording } from '../calls/calls';
import { copy } from '../shared/session/page';
import { run } from '../shared/session/session';
import * as timeline from './timeline';
import { IncidentLink } from '../shared/parts/incidentlink';
import { Menu } from '../shared/parts/menu';
import { Empty, Panel } from '../shared/parts/panel';

/** The chosen call: what is known of it, and where to go from it. */
export function Chosen() {
  const { call } = view.value;
  const record = timeline.record.value;
  const spot = timeline.chosen.value;
  return (
    <Panel name="chosen" title="Selected call" summary={call === null ? 'None.' : `Call ${call}.`}>
      {call === null ? (
        <Empty>Click a bar to select its call, or press ] for the next abnormal one. Drag to zoom, Shift-drag to pan.</Empty>
      ) : (
        <div class="chosen-call">
          <p class="chosen-head">
            {record !== null ? (
              <strong>{callAnswer(record, wording.value.metric, wording.value.programs)}</strong>
            ) : (
              <span>
                {detail.error.value === null ? `Reading call ${call}…` : 'No record of its own: only abnormal calls, and some normal ones, have one.'}
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
    </Panel>
  );
}

function copies(call: string, name: string | null): { text: string; title: string; act: () => void }[] {
  const directory = run.value.value?.directory;
  return [
    { text: 'Id', title: call, act: () => void copy(call) },
    ...(name === null ? [] : [{ text: 'Function', title: 'Its full name', act: () => void copy(name) }]),
    ...(directory === undefined
      ? []
      : [{ text: 'Command', title: 'Everything kept about it, in the terminal', act: () => void copy(showCommand(directory, call)) }]),
  ];
}
