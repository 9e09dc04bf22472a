import { heaviest } from './model/heaviest';
import { allPathsRequest } from '../shared/api/functionrequests';
import { FunctionLink } from '../shared/parts/functionlink';
import { Listed } from '../shared/parts/listed';
import { duration, exact, percent } from '../shared/units/units';
import { view } from '../shared/address/address';
import { frames, rank, zoomed } from './flame';

/** Lines of the table; more would make the browser slow. */
const MOST_LINES = 300;

/** Functions of the flame graph, each over all its callers, by exclusive time. */
export function Heaviest() {
  const whole_us = frames.value[zoomed.value]?.total_us ?? 0;
  // Only nodes with samples, and live runs, say who slept.
  const hasSlept = view.value.weight !== 'lost' && frames.value.some((frame) => frame.slept_us > 0);
  const rows = heaviest(frames.value, zoomed.value)
    .slice(0, MOST_LINES)
    .map(({ name, program, own_us, slept_us, total_us, calls }) => [
      <FunctionLink name={name} program={program} />,
      duration(own_us),
      percent(own_us / whole_us),
      ...(hasSlept ? [slept_us > 0 ? duration(slept_us) : ''] : []),
      duration(total_us),
      exact(calls),
    ]);
  return (
    <Listed
      name="heaviest"
      title="Functions, over all their callers"
      columns={[
        ['function', false],
        [view.value.weight === 'lost' ? 'lost, exclusive' : 'exclusive', true],
        ['share', true],
        ...(hasSlept ? [['of it asleep', true] as [string, boolean]] : []),
        ['inclusive', true],
        ['calls', true],
      ]}
      rows={rows}
      nothing="No call path has any time."
      asks={{ json: allPathsRequest(rank.value), hasSql: rank.value === null }}
    />
  );
}
