import { shorten } from '../shared/names/names';
import { duration, exact, plural, wallClock } from '../shared/units/units';
import { vitals } from './health';
import { Empty, Panel } from '../shared/parts/panel';
import { Table } from '../shared/parts/table';

/** Anomalies that were found but are not in the store: only counted, or removed since. */
export function NotKept() {
  const known = vitals.value.value;
  const { unrecorded = [], unrecorded_total = 0, pruned = [], pruned_total = 0 } = known ?? {};
  const nothing = unrecorded.length === 0 && pruned.length === 0;
  const summary = nothing ? 'Everything that was found is kept.' : `${exact(unrecorded_total)} were only counted, ${exact(pruned_total)} were removed since.`;
  return (
    <Panel name="notkept" title="Found but not kept" summary={summary}>
      {nothing && <Empty>Everything that was found is kept.</Empty>}
      {unrecorded.length > 0 && (
        <>
          <h3>{plural(unrecorded_total, 'anomaly')} counted, not recorded: more of one function than are kept, or no room to wait</h3>
          <Table
            columns={[{ heading: 'function' }, { heading: 'anomalies', isNumber: true }]}
            rows={unrecorded.map((one) => [<Name full={one.function} />, exact(one.anomalies)])}
          />
        </>
      )}
      {pruned.length > 0 && (
        <>
          <h3>{plural(pruned_total, 'anomaly')} removed by chimbuko runs prune</h3>
          <Table
            columns={[
              { heading: 'function' },
              { heading: 'when' },
              { heading: 'rule' },
              { heading: 'anomalies', isNumber: true },
              { heading: 'lost', isNumber: true },
            ]}
            rows={pruned.map((one) => [<Name full={one.function} />, wallClock(one.pruned_us), one.rule, exact(one.anomalies), duration(one.severity_us)])}
          />
        </>
      )}
    </Panel>
  );
}

function Name({ full }: { full: string }) {
  return <span title={full}>{shorten(full, 36).text}</span>;
}
