import { tasksAnswer } from './model/tasks';
import { published } from './workflow';
import { Empty, Reading } from '../shared/parts/panel';
import { MpiPanel } from './mpi';
import { QuantityPanel } from './quantity';
import { ScalesPanel } from './scales';
import { TasksPanel } from './tasks';
import { UtilisationPanel } from './utilisation';

/** What programs, nodes and the workflow have published of themselves. */
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
              ? 'No tasks; what was published stands below.'
              : tasksAnswer(known.tasks)}
      </h1>
      {known === null ? (
        published.error.value === null ? (
          <Reading what="what was published" />
        ) : (
          <Empty>{published.error.value}</Empty>
        )
      ) : isEmpty ? (
        <Empty>
          Programs, nodes and workflows publish into a service of namespaces. <code>chimbuko workflow FILE</code> has one; other runs get one with{' '}
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
