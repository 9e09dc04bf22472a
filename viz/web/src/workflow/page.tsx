import { tasksAnswer } from './model/tasks';
import { BudgetBar } from '../overview/budgetbar';
import { incidents } from '../overview/overview';
import { addressOf, follow } from '../shared/address/address';
import { toNode } from '../shared/address/model/trail';
import type { View } from '../shared/address/model/view';
import { memory, published } from './workflow';
import { Empty, Reading } from '../shared/parts/panel';
import { MpiPanel } from './mpi';
import { QuantityPanel } from './quantity';
import { ScalesPanel } from './scales';
import { TasksPanel } from './tasks';
import { UtilisationPanel } from './utilisation';
import { Answer } from '../shared/parts/sentence';

/** Page of the workflow: what programs, nodes and the workflow have published. */
export function WorkflowPage() {
  const known = published.value.value;
  const isEmpty = known !== null && known.tasks.length + known.nodes.length + known.mpi.length + known.quantities.length === 0;
  return (
    <main class="workflow">
      <Answer
        text={
          known === null
            ? ''
            : isEmpty
              ? 'The programs of this run publish nothing; below is what is known of them without that.'
              : known.tasks.length === 0
                ? 'There are no tasks; other published data are shown below.'
                : tasksAnswer(known.tasks)
        }
      />
      <BudgetBar />
      <Grown />
      {known === null ? (
        published.error.value === null ? (
          <Reading what="published data" />
        ) : (
          <Empty>{published.error.value}</Empty>
        )
      ) : isEmpty ? (
        <Empty>
          A program that publishes what it conserves, such as its mass or energy, is watched for drifts: start <code>chimbuko namespaces serve FOLDER</code>,
          and the run with <code>--namespaces FOLDER</code>. <code>chimbuko workflow FILE</code> shows tasks, too.
        </Empty>
      ) : (
        <div class="workflow-panels">
          <TasksPanel />
          <UtilisationPanel />
          <ScalesPanel />
          <MpiPanel />
          <QuantityPanel />
        </div>
      )}
    </main>
  );
}

/** Findings in published quantities, and about nodes, such as memory that grows: each a link. */
function Grown() {
  const found = incidents.value.value;
  if (found === null) return null;
  const lines: [key: string, sentence: string, to: Partial<View>][] = [
    ...found.metrics.map(({ id, sentence }): [string, string, Partial<View>] => [id, sentence, { page: 'incident', incident: id, call: null }]),
    ...found.nodes.map(({ node, kind, sentence }): [string, string, Partial<View>] => [`${node} ${kind}`, sentence, toNode(node)]),
    ...(memory.value.value ?? []).map(({ node, text, advice }): [string, string, Partial<View>] => [
      `${node} ${text}`,
      `${node}: ${text}; ${advice}`,
      toNode(node),
    ]),
  ];
  if (lines.length === 0) return null;
  return (
    <ul class="workflow-findings">
      {lines.map(([key, sentence, to]) => (
        <li key={key}>
          <a href={addressOf(to)} onClick={(event) => follow(event, to)}>
            {sentence}
          </a>
        </li>
      ))}
    </ul>
  );
}
