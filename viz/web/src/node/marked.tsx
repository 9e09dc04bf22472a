import { shorten } from '../shared/names/names';
import { duration, exact, sinceStart } from '../shared/units/units';
import { addressOf, follow } from '../shared/address/address';
import { MOST_MARKS } from '../shared/api/noderequests';
import { zero_us } from '../shared/session/session';
import { Listed } from '../shared/parts/listed';
import { marks } from './node';

const MOST_LISTED = 20;

/** Abnormal calls of the node in the time that is shown, which the charts mark, as a list. */
export function Marked() {
  const found = marks.value.value;
  const calls = (found?.calls ?? []).slice(0, MOST_LISTED);
  const total = found?.total ?? 0;
  return (
    <Listed
      name="node-calls"
      title={total > MOST_LISTED ? `Abnormal calls in this time, the worst ${MOST_LISTED} of ${exact(total)}` : 'Abnormal calls in this time'}
      columns={[
        ['rank', false],
        ['function', false],
        ['from', true],
        ['lost', true],
      ]}
      rows={calls.map((call) => {
        const target = { page: 'call', call: call.id } as const;
        return [
          `${call.program}:${call.rank}`,
          <a href={addressOf(target)} title={call.function} onClick={(event) => follow(event, target)}>
            {shorten(call.function, 40).text}
          </a>,
          sinceStart(call.entry_us - zero_us.value),
          duration(call.severity_us),
        ];
      })}
      nothing="There are no abnormal calls in this time."
      actions={total > MOST_MARKS ? <span class="unit">charts mark the worst {MOST_MARKS}</span> : undefined}
    />
  );
}
