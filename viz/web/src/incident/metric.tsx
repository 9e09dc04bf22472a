import { showCommand } from '../shared/asking/commands';
import { exact, sinceStart, wallClock } from '../shared/units/units';
import { isMetric, type View } from '../shared/address/model/view';
import { getMetricFinding, metricFindingRequest } from '../shared/api/requests';
import { getQuantity, quantityRequest, type QuantityName } from '../shared/api/workflowrequests';
import { curvesOf } from '../shared/charts/model/curves';
import { CurveChart } from '../shared/charts/curvechart';
import { Empty, Panel, Reading } from '../shared/parts/panel';
import { addressOfApi } from '../shared/api/http';
import { view } from '../shared/address/address';
import { copy } from '../shared/session/page';
import { question } from '../shared/session/question';
import { run, zero_us } from '../shared/session/session';
import { Menu, type MenuItem } from '../shared/parts/menu';
import { Answer } from '../shared/parts/sentence';
import { Frame, Go } from './frame';
import type { MetricFinding, MetricFindingAnswer } from '../shared/api/types';

/** Time before and after the finding that its timeline shows. */
const AROUND_US = 1_000_000;

const found = question(
  () => (view.value.page === 'incident' && isMetric(view.value.incident) ? view.value.incident : null),
  (signal) => getMetricFinding(view.value.incident as string, signal),
  { live: true },
);

const published = question(
  () => found.value.value?.summary.finding.quantity ?? null,
  (signal) => getQuantity(asPublished((found.value.value as MetricFindingAnswer).summary.finding), signal),
  { live: true, keep: true },
);

/** Page of a finding about a published quantity: what is wrong, on which ranks, and since when. */
export function MetricPage() {
  return (
    <Frame found={found} noun="finding" look="metric">
      {(answer) => <Page found={answer.summary} />}
    </Frame>
  );
}

function Page({ found: one }: { found: MetricFinding }) {
  return (
    <>
      <div class="headline">
        <Answer sign="≠" text={one.sentence} />
        <Go to={timelineOf(one)} text="Timeline" isButton />
        <Menu label="Copy this finding" text="Copy ▾" items={() => copies(one)} quiet={false} />
      </div>
      <dl class="figures">
        {figuresOf(one.finding).map(([name, value]) => (
          <div key={name} data-figure={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      <Published found={one} />
      <p class="note">The programs publish this quantity themselves; no call is flagged because of it. The timeline shows what the ranks did at that time.</p>
    </>
  );
}

/** The quantity over time, a line for each rank; the ranks that the finding names stand out. */
function Published({ found: { finding } }: { found: MetricFinding }) {
  const lines = published.value.value?.lines ?? [];
  const text = `${finding.quantity}: it began at step ${exact(finding.since)}.`;
  return (
    <Panel name="published" title={finding.quantity} summary={text} asks={{ json: quantityRequest(asPublished(finding)) }}>
      {published.error.value !== null ? (
        <Empty>{published.error.value}</Empty>
      ) : lines.length === 0 ? (
        <Reading what="the published quantity" />
      ) : (
        <CurveChart
          label={text}
          curves={curvesOf(lines, finding.ranks)}
          zero_us={zero_us.value}
          moment={{ time_us: finding.begin_us, text: `step ${exact(finding.since)}` }}
        />
      )}
    </Panel>
  );
}

/** Name of the quantity; findings are about those that programs publish. */
const asPublished = (finding: MetricFinding['finding']): QuantityName => ({ namespace: 'application', quantity: finding.quantity });

const figuresOf = ({ kind, quantity, ranks, since, step, begin_us, found_us }: MetricFinding['finding']): [string, string][] => [
  ['kind', kind],
  ['quantity', quantity],
  ['ranks', ranks.length === 0 ? 'all ranks alike' : ranks.join(', ')],
  ['since step', exact(since)],
  ['began', `${sinceStart(begin_us - zero_us.value)} (${wallClock(begin_us)})`],
  ['found at step', exact(step)],
  ['found', `${sinceStart(found_us - zero_us.value)} (${wallClock(found_us)})`],
];

/** Timeline around the beginning of the finding. */
function timelineOf({ finding: { begin_us, found_us } }: MetricFinding): Partial<View> {
  const [begin, end] = [begin_us - zero_us.value, found_us - zero_us.value];
  return { page: 'timeline', incident: null, call: null, window: [Math.max(0, begin - AROUND_US), Math.max(1, end + AROUND_US)], recent_s: null };
}

function copies({ id, sentence }: MetricFinding): MenuItem[] {
  const directory = run.value.value?.directory;
  return [
    { text: 'Link', title: 'Address of this page (C)', act: () => void copy(location.href) },
    { text: 'Sentence', title: 'What is wrong, for a message', act: () => void copy(sentence) },
    { text: 'JSON address', title: 'Everything about it, from the API', act: () => void copy(addressOfApi(...metricFindingRequest(id)).href) },
    ...(directory === undefined ? [] : [{ text: 'Command', title: 'The same in the terminal (Shift+C)', act: () => void copy(showCommand(directory, id)) }]),
  ];
}
