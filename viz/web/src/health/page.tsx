import type { ComponentChildren } from 'preact';
import { costAnswer, healthAnswer, pipeline } from './model/health';
import { vitals } from './health';
import { budget } from '../overview/overview';
import { Answer, Sentence } from '../shared/parts/sentence';
import { Empty, Reading } from '../shared/parts/panel';
import type { Vitals } from '../shared/api/types';
import { Agents, SlowRanks } from './agents';
import { Detector, Metadata, RunDescription } from './description';
import { CallData } from './calldata';
import { LossMap } from './lossmap';
import { NotKept } from './notkept';
import { OverTime } from './overtime';
import { WhereItRuns } from './placement';
import { Streams } from './streams';

/** Page of the analysis' health: what was read, lost and kept, and the resources that the analysis takes. */
export function Health() {
  const known = vitals.value.value;
  if (known === null)
    return <main class="health">{vitals.error.value === null ? <Reading what="the state of the analysis" /> : <Empty>{vitals.error.value}</Empty>}</main>;
  return (
    <main class="health">
      <Answer text={healthAnswer(known)} />
      <Pipeline known={known} />
      <Question text="Is anything missing?">
        <CallData />
        <LossMap />
        <NotKept />
        <Streams />
      </Question>
      <Question text="Does the analysis slow the program down?" answer={costAnswer(known, budget.value.value?.budget ?? null)}>
        <Agents />
        <SlowRanks />
        <OverTime />
        <WhereItRuns />
      </Question>
      <Question text="What was run, and how was it judged?">
        <RunDescription />
        <Detector />
        <Metadata />
      </Question>
    </main>
  );
}

/** Panels that answer one question, below the answer in words where there is one. */
function Question({ text, answer = '', children }: { text: string; answer?: string; children: ComponentChildren }) {
  return (
    <section class="question" aria-label={text}>
      <h2>{text}</h2>
      {answer !== '' && (
        <p data-cost>
          <Sentence text={answer} />
        </p>
      )}
      <div class="health-panels">{children}</div>
    </section>
  );
}

/** The way of the events, stage by stage. */
function Pipeline({ known }: { known: Vitals }) {
  return (
    <ol class="pipeline" aria-label="The way of the events from the application to this page">
      {pipeline(known).map(({ name, figure, detail, warns }) => (
        <li key={name} class={warns ? 'station warns' : 'station'} data-station={name}>
          <span class="station-name">{name}</span>
          <span class="station-figure">{figure}</span>
          <span class="station-detail">{detail}</span>
        </li>
      ))}
    </ol>
  );
}
