import { columnUnit, duration, inUnit, percent } from '../shared/units/units';
import { workflowRequest } from '../shared/api/workflowrequests';
import { published } from './workflow';
import { programsOf, type ProgramTimes } from './model/mpi';
import { Track } from '../shared/charts/track';
import { Empty, Panel } from '../shared/parts/panel';
import { Table } from '../shared/parts/table';

/** Time in MPI of each rank, and its balance. */
export function MpiPanel() {
  const programs = programsOf(published.value.value?.mpi ?? []);
  const most_us = programs.reduce((highest, one) => Math.max(highest, one.most_us), 0);
  const unit = columnUnit([most_us]);
  return (
    <Panel
      name="mpi"
      title="Time in MPI by rank"
      summary={programs.length === 0 ? 'Not known.' : programs.map((one) => sentenceOf(one, programs.length > 1)).join(' ')}
      actions={
        programs.length > 0 && (
          <span class="unit">{`${unit === 'clock' ? 'h:mm:ss' : unit} · ${programs.map((one) => balanceOf(one, programs.length > 1)).join(', ')}`}</span>
        )
      }
      asks={{ json: workflowRequest }}
      table={programs.length === 0 ? undefined : () => <MpiTable programs={programs} />}
    >
      {programs.length === 0 ? (
        <Empty>
          The namespace <code>performance</code> has no times in MPI: no program of the run has used MPI, or published its time.
        </Empty>
      ) : (
        programs.map(({ program, ranks }) => (
          <section key={program} data-program={program}>
            {programs.length > 1 && <p class="unit">{program || 'Program without a name'}</p>}
            <ol class="share-list">
              {ranks.map(({ rank, time_us }) => (
                <li key={rank} class="mpi-rank" data-rank={rank}>
                  <span>{rank}</span>
                  <Track share={most_us > 0 ? time_us / most_us : 0} />
                  <span class="number">{inUnit(time_us, unit)}</span>
                </li>
              ))}
            </ol>
          </section>
        ))
      )}
    </Panel>
  );
}

function MpiTable({ programs }: { programs: readonly ProgramTimes[] }) {
  return (
    <Table
      columns={[{ heading: 'program' }, { heading: 'rank', isNumber: true }, { heading: 'time in MPI', isNumber: true }]}
      rows={programs.flatMap(({ program, ranks }) => ranks.map(({ rank, time_us }) => [program, rank, duration(time_us)]))}
    />
  );
}

const sentenceOf = ({ program, mean_us, most_us }: ProgramTimes, isNamed: boolean): string =>
  `${isNamed && program !== '' ? `${program}: on` : 'On'} average ${duration(mean_us)}, at most ${duration(most_us)}.`;

const balanceOf = ({ program, balance }: ProgramTimes, isNamed: boolean): string =>
  isNamed ? `${program} ${percent(balance)}` : `mean divided by maximum: ${percent(balance)}`;
