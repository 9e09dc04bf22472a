import { tasksAnswer } from './model/tasks';
import { published } from './workflow';
import { Empty, Reading } from '../shared/parts/panel';
import { MpiPanel } from './mpi';
import { QuantityPanel } from './quantity';
import { ScalesPanel } from './scales';
import { TasksPanel } from './tasks';
import { UtilisationPanel } from './utilisation';

/** Page of the workflow: what programs, nodes and the workflow have published. */
export function WorkflowPage() {
  const known = published.value.value;
  const isEmpty = known !== null && known.tasks.length + known.nodes.length + known.mpi.length + known.quantities.length === 0;
  return (
    <main class="workflow">
      <h1 class="answer" data-answer>
        {known === null
          ? ' '
          : isEmpty
            ? 'Nothing was published in this run.'
            : known.tasks.length === 0
              ? 'There are no tasks; other published data are shown below.'
              : tasksAnswer(known.tasks)}
      </h1>
      {known === null ? (
        published.error.value === null ? (
          <Reading what="published data" />
        ) : (
          <Empty>{published.error.value}</Empty>
        )
      ) : isEmpty ? (
        <Empty>
          Programs, nodes and workflows publish to a service of namespaces. <code>chimbuko workflow FILE</code> starts one; other runs use{' '}
          <code>chimbuko namespaces serve FOLDER</code> and <code>--namespaces FOLDER</code>.
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
