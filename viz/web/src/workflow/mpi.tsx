import { columnUnit, duration, inUnit, percent } from '../shared/units/units';
import { workflowRequest } from '../shared/api/workflowrequests';
import { published } from './workflow';
import { Track } from '../shared/charts/track';
import { Empty, Panel } from '../shared/parts/panel';
import { Table } from '../shared/parts/table';

/** Time in MPI of each rank, and how evenly it is spread. */
export function MpiPanel() {
  const ranks = published.value.value?.mpi ?? [];
  const most = ranks.reduce((highest, one) => Math.max(highest, one.time_us), 0);
  const mean = ranks.reduce((sum, one) => sum + one.time_us, 0) / Math.max(1, ranks.length);
  const unit = columnUnit([most]);
  return (
    <Panel
      name="mpi"
      title="Time in MPI by rank"
      summary={ranks.length === 0 ? 'Not known.' : `On average ${duration(mean)}, at most ${duration(most)}.`}
      actions={
        ranks.length > 0 && <span class="unit">{`${unit === 'clock' ? 'h:mm:ss' : unit} · mean through largest ${percent(most > 0 ? mean / most : 1)}`}</span>
      }
      asks={{ json: workflowRequest }}
      table={
        ranks.length === 0
          ? undefined
          : () => (
              <Table
                columns={[
                  { heading: 'rank', isNumber: true },
                  { heading: 'time in MPI', isNumber: true },
                ]}
                rows={ranks.map(({ rank, time_us }) => [rank, duration(time_us)])}
              />
            )
      }
    >
      {ranks.length === 0 ? (
        <Empty>
          Nothing of it stands in the namespace <code>performance</code>.
        </Empty>
      ) : (
        <ol class="share-list">
          {ranks.map(({ rank, time_us }) => (
            <li key={rank} class="mpi-rank" data-rank={rank}>
              <span>{rank}</span>
              <Track share={most > 0 ? time_us / most : 0} />
              <span class="number">{inUnit(time_us, unit)}</span>
            </li>
          ))}
        </ol>
      )}
    </Panel>
  );
}
