import { GROUP_FILLS, type Group } from '../charts/model/tokens';

const GROUP_NAMES: Readonly<Record<Group, string>> = { app: 'application', mpi: 'MPI', io: 'I/O', gpu: 'GPU', runtime: 'runtime', other: 'other' };

/** Legend of the colours of functions. */
export function GroupLegend() {
  return (
    <ul class="groups" aria-label="Colours">
      {(Object.keys(GROUP_FILLS) as Group[]).map((group) => (
        <li key={group} class={`group ${group}`}>
          {GROUP_NAMES[group]}
        </li>
      ))}
    </ul>
  );
}
