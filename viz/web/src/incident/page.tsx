import { showCommand } from '../shared/asking/commands';
import { bounded, plural, sinceStart, wallClock } from '../shared/units/units';
import { isMetric, isRecurring, type View } from '../shared/address/model/view';
import { incidentRequest } from '../shared/api/requests';
import { addressOfApi } from '../shared/api/http';
import { view } from '../shared/address/address';
import { copy } from '../shared/session/page';
import { run, zero_us } from '../shared/session/session';
import { Menu, type MenuItem } from '../shared/parts/menu';
import { Answer, Sentence } from '../shared/parts/sentence';
import { Beside } from '../call/beside';
import { CallTimeline } from '../call/calltimeline';
import { Chain } from './chain';
import { Earlier, Frame, Go } from './frame';
import { beside, call, found, lanes, shown } from './incident';
import { Lanes } from './lanes';
import { Marks } from './marks';
import { Next } from './next';
import { MetricPage } from './metric';
import { RecurringPage } from './recurring';
import { Split } from './split';
import type { IncidentAnswer } from '../shared/api/types';

/** Page of one incident: what lost the time and why, whom it held up, and a normal call for comparison. */
export function IncidentPage() {
  if (isMetric(view.value.incident)) return <MetricPage />;
  return isRecurring(view.value.incident) ? <RecurringPage /> : <OneIncident />;
}

function OneIncident() {
  return (
    <Frame found={found} noun="incident">
      {(answer) => <Page answer={answer} />}
    </Frame>
  );
}

function Page({ answer }: { answer: IncidentAnswer }) {
  const { summary, incident, is_gone, known } = answer;
  const id = summary.id;
  const origin = call.value.value;
  return (
    <>
      <div class="headline">
        <Answer sign="◆" text={summary.sentence} />
        <Go to={timelineOf(answer)} text="Timeline" isButton />
        {incident.call_id !== '' && <Go to={{ page: 'call', call: incident.call_id }} text="Origin" isButton />}
        {(incident.call_id !== '' || incident.waited.length > 0) && (
          <Go to={{ page: 'calls', incident: id, label: 'any', call: null, cursor: null }} text="Its calls" isButton />
        )}
        <Menu label="Copy this incident" text="Copy ▾" items={() => copies(answer)} quiet={false} />
      </div>
      {view.value.incident !== id && (
        <p class="note">
          {view.value.incident} turned out to be part of incident {id}: this is it.
        </p>
      )}
      {is_gone && (
        <p class="note">
          By what was known at the end of the run, its calls were ordinary, so it no longer counts. This page shows it as it was judged before.
        </p>
      )}
      {incident.told_before !== '' && (
        <p class="note">
          Revised by what was known later. Before: <Sentence text={incident.told_before} />
        </p>
      )}
      <Earlier known={known} />
      <Next incident={incident} hasNormal={(origin?.normal ?? null) !== null} />
      <Marks of={summary} />
      <p class="place">{placeText(answer)}</p>
      <div class="call-panels incident-panels">
        <Lanes incident={incident} id={id} />
        <Chain incident={incident} id={id} />
        <Split incident={incident} id={id} />
        {origin !== null && <CallTimeline record={origin.record} normal={origin.normal} />}
        {origin !== null && beside.value.value?.node !== null && <Beside record={origin.record} beside={beside} />}
      </div>
    </>
  );
}

function placeText({ summary, incident }: IncidentAnswer): string {
  const parts = [
    `incident ${summary.id}`,
    `from ${sinceStart(summary.begin_us - zero_us.value)} (${wallClock(summary.begin_us)})`,
    incident.node && `node ${incident.node}`,
    `${plural(summary.flags, 'abnormal call')} on ${plural(summary.ranks, 'rank')}`,
    `${bounded(summary.cost_us, summary.bound)} lost`,
  ];
  return parts.filter((part) => part !== '').join(' · ');
}

/** Timeline with the same ranks and times, which can be moved and zoomed. */
function timelineOf({ incident }: IncidentAnswer): Partial<View> {
  const [first = null, ...others] = lanes.value;
  const [begin, end] = shown.value;
  return {
    page: 'timeline',
    rank: first,
    partners: others,
    call: incident.call_id || (incident.waited[0]?.call_id ?? null),
    incident: null,
    window: [Math.max(0, begin - zero_us.value), Math.max(1, end - zero_us.value)],
    recent_s: null,
  };
}

function copies(answer: IncidentAnswer): MenuItem[] {
  const { id } = answer.summary;
  const directory = run.value.value?.directory;
  return [
    { text: 'Link', title: 'Address of this page (C)', act: () => void copy(location.href) },
    { text: 'Sentence', title: 'What happened, for a message', act: () => void copy(answer.summary.sentence) },
    { text: 'JSON address', title: 'Everything about it, from the API', act: () => void copy(addressOfApi(...incidentRequest(id)).href) },
    ...(directory === undefined ? [] : [{ text: 'Command', title: 'The same in the terminal (Shift+C)', act: () => void copy(showCommand(directory, id)) }]),
  ];
}
