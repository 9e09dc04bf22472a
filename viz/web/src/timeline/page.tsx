import { useEffect } from 'preact/hooks';
import { callAnswer } from '../shared/names/answer';
import { queryCommand, quoted } from '../shared/asking/commands';
import { rangeText, sceneAnswer, sourceText } from './model/timelinewords';
import { percent, plural } from '../shared/units/units';
import { FIRST_VIEW } from '../shared/address/model/view';
import { getRanks } from '../shared/api/requests';
import { timelineRequest } from './requests';
import { go, view } from '../shared/address/address';
import { wording } from '../calls/calls';
import { copy } from '../shared/session/page';
import { run, zero_us } from '../shared/session/session';
import * as timeline from './timeline';
import { GroupLegend } from '../shared/parts/grouplegend';
import { Menu, type MenuItem } from '../shared/parts/menu';
import { Empty, Panel, Reading } from '../shared/parts/panel';
import type { RankKey } from '../shared/api/types';
import { Chart } from './chart';
import { Chosen } from './chosen';
import { listenOnTimeline } from './keys';
import { Selected } from './selected';
import { PublishedTable, SpanTable } from './table';
import { published } from '../overview/overview';
import { Answer } from '../shared/parts/sentence';

/** Most ranks that the menu offers. */
const MOST_BESIDE = 12;

/** Page of the timeline: calls of a rank's threads over time, with partner ranks, messages and launches. */
export function TimelinePage() {
  useEffect(listenOnTimeline, []);
  return (
    <main class="timeline-page" style={{ '--tall': timeline.tallest.value }}>
      <Answer text={answer()} />
      <Picture />
      {timeline.box.value === null ? <Chosen /> : <Selected times={timeline.box.value} />}
    </main>
  );
}

function answer(): string {
  const record = timeline.record.value;
  const all = timeline.found.value.value;
  if (record !== null) return callAnswer(record, wording.value.metric, wording.value.programs);
  if (timeline.found.error.value !== null) return timeline.found.error.value;
  return all === null ? '' : sceneAnswer(all, timeline.rested.value, wording.value);
}

function Picture() {
  const all = timeline.found.value.value;
  const scene = timeline.scene.value;
  const shown = timeline.rested.value;
  const range = rangeText(...shown, zero_us.value);
  const findings = published.value.filter(({ time_us }) => time_us >= shown[0] && time_us <= shown[1]);
  const summary =
    all === null
      ? (timeline.found.error.value ?? 'The timeline is being read.')
      : `${sceneAnswer(all, shown, wording.value)} ${sourceText(all)}${wrongText(findings.length)} Arrow keys move from call to call, Enter opens one, W and S zoom, A and D pan, M selects the time of a call, or all that is shown, and lists its functions.`;
  const main = timeline.mainRank.value;
  return (
    <Panel
      name="timeline"
      title={`Timeline, ${range}`}
      summary={summary}
      actions={<Actions />}
      table={() => (
        <SpanTable scene={scene} shown={shown}>
          <PublishedTable findings={findings} />
        </SpanTable>
      )}
      asks={{
        command: (directory) => queryCommand(directory, { ...FIRST_VIEW, rank: main, times: timeline.sinceZero(shown) }),
        json: timelineRequest(
          main,
          timeline.ranks.value.filter((rank) => rank !== main),
          { from: Math.floor(shown[0]), to: Math.ceil(shown[1]), columns: 1000 },
          1000,
        ),
      }}
    >
      {all === null && timeline.found.error.value !== null ? (
        <Empty>{timeline.found.error.value}</Empty>
      ) : (
        <>
          <Chart label={`Timeline of ${timeline.ranks.value.map((rank) => `rank ${rank}`).join(', ')}, ${range}`} />
          {all === null && (
            <div class="over">
              <Reading what={`the calls of rank ${main}`} />
            </div>
          )}
          {all !== null && scene.lines.length === 0 && (
            <div class="over">
              <Empty>
                Nothing was kept of this rank in this time: normal calls were analysed but not kept. Press 0 for all times of the rank, or ] for an abnormal
                call.
              </Empty>
            </div>
          )}
        </>
      )}
    </Panel>
  );
}

/** Note for screen readers on findings about published quantities, which the picture shows as lines. */
const wrongText = (number: number): string => (number === 0 ? '' : ` ${plural(number, 'published quantity')} went wrong; the table says which.`);

function Actions() {
  const all = timeline.found.value.value;
  const { folded, messages } = view.value;
  const isWhole = all !== null && all.every((one) => one.source === 'trace');
  return (
    <>
      {timeline.partners.value.map((rank) => (
        <button key={rank} class="chip" onClick={() => timeline.togglePartner(rank)} aria-label={`Remove rank ${rank}`} title="Remove this rank">
          rank {wording.value.programs > 1 ? rank : rank.split(':')[1]} <span aria-hidden="true">×</span>
        </button>
      ))}
      <Menu label="Add the lines of another rank" text="+ rank ▾" items={ranksBeside} />
      <button
        class="quiet"
        aria-pressed={folded}
        disabled={isWhole}
        onClick={() => go({ folded: !folded }, 'replace')}
        title="Fold times for which nothing was kept (X)"
      >
        Fold gaps
      </button>
      <button
        class="quiet"
        aria-pressed={messages}
        onClick={() => go({ messages: !messages }, 'replace')}
        title="All messages, and not only those that were waited for, or of the call that is selected or pointed at (G)"
      >
        Show messages
      </button>
      <button
        class="quiet"
        aria-pressed={timeline.isBoxing.value}
        onClick={() => (timeline.isBoxing.value = !timeline.isBoxing.value)}
        title="Drag to select a time and lines, and list their functions (E); M selects what is shown"
      >
        Select
      </button>
      <button class="quiet" onClick={timeline.fitAll} title="All times of the rank (0)">
        All
      </button>
      {run.value.value?.state === 'running' && (
        <button class="quiet" aria-pressed={view.value.recent_s !== null} onClick={timeline.followNow} title="The newest times; follow new ones (L)">
          →now
        </button>
      )}
      <GroupLegend />
      <Indexing />
    </>
  );
}

/** Ranks that can be added, those with the most anomalies first. */
async function ranksBeside(): Promise<MenuItem[]> {
  let keys: RankKey[];
  try {
    const { top } = await getRanks('total', MOST_BESIDE, new AbortController().signal);
    keys = top.map((row): RankKey => `${row.program}:${row.rank}`).filter((key) => !timeline.ranks.value.includes(key));
  } catch {
    return [{ text: 'The server cannot be reached', act: () => {} }];
  }
  if (keys.length === 0) return [{ text: 'All ranks are shown', act: () => {} }];
  return keys.map((key) => ({ text: `rank ${wording.value.programs > 1 ? key : key.split(':')[1]}`, act: () => timeline.togglePartner(key) }));
}

/** Progress of reading the recorded trace, or why it was not read. */
function Indexing() {
  const { busy, progress, error, cancelled } = timeline.indexing;
  const directory = run.value.value?.directory;
  if (busy.value) {
    const done = progress.value;
    return (
      <span class="indexing" role="status">
        {done === null ? 'Waiting to read the recorded trace' : `${done.text} · ${percent(done.share)}`}
        <button class="quiet" onClick={() => timeline.indexing.cancel()}>
          Cancel
        </button>
      </span>
    );
  }
  if (cancelled.value) {
    return (
      <button class="quiet" onClick={() => timeline.indexing.again()}>
        Read the recorded trace
      </button>
    );
  }
  if (error.value === null || directory === undefined) return null;
  const command = `chimbuko runs index ${quoted(directory)} --rank ${timeline.mainRank.value}`;
  return (
    <button class="quiet" onClick={() => void copy(command)} title={`${error.value} In the terminal: ${command}`}>
      Recorded trace not read: copy command
    </button>
  );
}
