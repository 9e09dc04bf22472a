import { ACTIVITY_TEXT, rowsOf, tasksAnswer, type Activity, type TaskRow } from './model/tasks';
import { duration, sinceStart } from '../shared/units/units';
import { workflowRequest } from '../shared/api/workflowrequests';
import { published, span_us, start_us } from './workflow';
import { timeTicks } from '../shared/charts/model/curves';
import { RowChart } from '../shared/charts/rowchart';
import { useSize } from '../shared/charts/size';
import { Empty, Panel } from '../shared/parts/panel';
import { Table } from '../shared/parts/table';

export const LEFT = 148;
export const RIGHT = 18;
const ROW_PX = 20;
const BAR_PX = 12;
const AXIS_PX = 20;
const CHARACTER_PX = 6.5;

/** Activities of the tasks over time, and their nodes. */
export function TasksPanel() {
  const tasks = published.value.value?.tasks ?? [];
  const span = span_us.value;
  const rows = span === null ? [] : rowsOf(tasks, span[1]);
  return (
    <Panel
      name="tasks"
      title="Tasks"
      summary={rows.length === 0 ? 'No task is known.' : tasksAnswer(tasks)}
      actions={rows.length > 0 && <Legend />}
      asks={{ json: workflowRequest }}
      table={rows.length === 0 ? undefined : () => <TasksTable rows={rows} />}
    >
      {rows.length === 0 || span === null ? (
        <Empty>
          No task was published. <code>chimbuko workflow FILE</code> publishes its tasks, and <code>chimbuko task started</code> publishes those of another
          workflow engine.
        </Empty>
      ) : (
        <Chart rows={rows} span={span} label={tasksAnswer(tasks)} />
      )}
    </Panel>
  );
}

function Legend() {
  return (
    <span class="legend task-legend">
      {(Object.keys(ACTIVITY_TEXT) as Activity[]).map((activity) => (
        <span key={activity}>
          <svg width={14} height={12} aria-hidden="true">
            <rect class={`task-bar ${activity}`} x={0.5} y={1.5} width={13} height={9} />
          </svg>{' '}
          {ACTIVITY_TEXT[activity]}
        </span>
      ))}
    </span>
  );
}

function Chart({ rows, span: [first, last], label }: { rows: readonly TaskRow[]; span: readonly [number, number]; label: string }) {
  const { element, width } = useSize<HTMLDivElement>();
  const x = (time_us: number): number => LEFT + ((time_us - first) / (last - first)) * (width - LEFT - RIGHT);
  const height = rows.length * ROW_PX;
  return (
    <div ref={element} class="task-chart">
      {width > 0 && (
        <RowChart kind="Gantt chart" label={label} width={width} height={height + AXIS_PX} rows={rows.map(tip)} row_px={ROW_PX}>
          {rows.map((row, at) => (
            <g key={row.name} data-task={row.name} data-state={row.state}>
              <text class={row.isLost ? 'row-name lost' : 'row-name'} x={LEFT - 8} y={at * ROW_PX + 14} text-anchor="end">
                {`${row.isLost ? '✕ ' : ''}${cut(row.name, 20)}`}
              </text>
              {row.stretches.map(({ activity, begin_us, end_us }) => (
                <rect
                  key={begin_us}
                  class={`task-bar ${activity}`}
                  x={x(begin_us)}
                  y={at * ROW_PX + 4.5}
                  width={Math.max(1, x(end_us) - x(begin_us) - 1)}
                  height={BAR_PX - 1}
                />
              ))}
              <NodeName row={row} x={x} y={at * ROW_PX + 14} />
            </g>
          ))}
          <line class="base" x1={LEFT} x2={width} y1={height + 0.5} y2={height + 0.5} />
          <TimeTicks first={first} last={last} x={x} width={width} y={height + 15} />
        </RowChart>
      )}
    </div>
  );
}

/** Name of the node on the bar, if there is room. */
function NodeName({ row, x, y }: { row: TaskRow; x: (time_us: number) => number; y: number }) {
  const ran = row.stretches.filter((one) => one.activity === 'runs').pop();
  if (row.nodes === '' || ran === undefined) return null;
  const room = Math.floor((x(ran.end_us) - x(ran.begin_us) - 8) / CHARACTER_PX);
  if (room < 3) return null;
  return (
    <text class="bar-text" x={x(ran.begin_us) + 4} y={y}>
      {cut(row.nodes, room)}
    </text>
  );
}

/** Axis of times below a chart, since the begin of the page's times. */
export function TimeTicks({ first, last, x, width, y }: { first: number; last: number; x: (time_us: number) => number; width: number; y: number }) {
  return (
    <>
      {timeTicks(first - start_us.value, last - start_us.value, Math.max(2, Math.floor((width - LEFT) / 90))).map(({ at_us, text }) => (
        <text key={at_us} class="tick-text" x={x(at_us + start_us.value)} y={y} text-anchor="middle">
          {text}
        </text>
      ))}
    </>
  );
}

export const cut = (text: string, most: number): string => (text.length <= most ? text : `${text.slice(0, most - 1)}…`);

function tip({ name, nodes, state, stretches, task }: TaskRow): string[] {
  const where = nodes === '' ? [] : [`on ${nodes}${task.cores > 0 ? `, ${task.cores === 1 ? '1 core' : `${task.cores} cores`}` : ''}`];
  const did = stretches.map(
    ({ activity, begin_us, end_us }) => `${ACTIVITY_TEXT[activity]} ${duration(end_us - begin_us)} from ${sinceStart(begin_us - start_us.value)}`,
  );
  const end = task.reason === '' ? [] : [task.reason];
  return [`${name}: ${state.toLowerCase()}`, ...where, ...did.slice(-6), ...end];
}

function TasksTable({ rows }: { rows: readonly TaskRow[] }) {
  return (
    <Table
      columns={[
        { heading: 'task' },
        { heading: 'state' },
        { heading: 'program' },
        { heading: 'on' },
        { heading: 'ranks', isNumber: true },
        { heading: 'cores', isNumber: true },
        { heading: 'waited', isNumber: true },
        { heading: 'ran', isNumber: true },
        { heading: 'why' },
      ]}
      rows={rows.map(({ name, state, nodes, waits_us, runs_us, task }) => [
        name,
        state.toLowerCase(),
        task.program,
        nodes,
        task.ranks || '',
        task.cores || '',
        duration(waits_us),
        duration(runs_us),
        task.reason,
      ])}
    />
  );
}
