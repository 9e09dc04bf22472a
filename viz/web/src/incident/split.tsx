import { causeOf, partText } from './model/causes';
import { isLoss } from './model/chain';
import { showCommand } from '../shared/asking/commands';
import { duration, exact, percent } from '../shared/units/units';
import { incidentRequest } from '../shared/api/requests';
import { addressOf, follow } from '../shared/address/address';
import { Empty, Panel } from '../shared/parts/panel';
import { Table } from '../shared/parts/table';
import type { Incident, Part } from '../shared/api/types';

/** Least share of a part that has its name in the bar. */
const LEAST_LABELLED = 0.16;

/** Causes of the excess: a bar of its parts, which add up to it, and each part in words. */
export function Split({ incident, id }: { incident: Incident; id: string }) {
  const parts = [...incident.parts].sort((a, b) => b.lost_us - a.lost_us);
  const whole = parts.reduce((sum, part) => sum + part.lost_us, 0);
  const share = (part: Part): number => (whole > 0 ? part.lost_us / whole : 0);
  const of = isLoss(incident) ? 'Time lost by the rank' : incident.call_id === '' ? 'Excess of its longest wait' : 'Excess of the origin';
  const summary = parts.map((part) => `${duration(part.lost_us)} ${partText(part)}`).join('; ');
  return (
    <Panel
      name="split"
      title={`${of}, ${duration(whole)}`}
      summary={summary}
      asks={{ json: incidentRequest(id), command: (directory) => showCommand(directory, id) }}
      table={() => <PartTable parts={parts} share={share} />}
    >
      {parts.length === 0 ? (
        <Empty>The causes are not known.</Empty>
      ) : (
        <>
          <div class="split-bar" aria-hidden="true">
            {parts.map((part, at) => (
              <span key={at} class={`split-part cause-${causeOf(part.kind).colour}`} style={{ flexGrow: Math.max(0.004, share(part)) }}>
                {share(part) >= LEAST_LABELLED && causeOf(part.kind).id}
              </span>
            ))}
          </div>
          <ol class="split-parts">
            {parts.map((part, at) => (
              <li key={at} data-part={part.kind}>
                <i class={`split-part cause-${causeOf(part.kind).colour}`} aria-hidden="true" />
                <span class="split-lost">{duration(part.lost_us)}</span>
                <span class="split-share">{percent(share(part))}</span>
                <span>
                  <b>{causeOf(part.kind).id}</b>: {partText(part)} <PartCall id={part.call_id} own={incident.call_id} />
                </span>
              </li>
            ))}
          </ol>
        </>
      )}
    </Panel>
  );
}

/** Link to the call in which a part was lost, where it is another one. */
function PartCall({ id, own }: { id: string; own: string }) {
  if (id === '' || id === own) return null;
  const target = { page: 'call', call: id } as const;
  return (
    <a href={addressOf(target)} onClick={(event) => follow(event, target)}>
      call {id}
    </a>
  );
}

function PartTable({ parts, share }: { parts: readonly Part[]; share: (part: Part) => number }) {
  const columns = [
    { heading: 'cause' },
    { heading: 'where' },
    { heading: 'lost, µs', isNumber: true },
    { heading: 'share', isNumber: true },
    { heading: 'call' },
  ];
  const rows = parts.map((part) => [causeOf(part.kind).id, partText(part), exact(Math.round(part.lost_us)), percent(share(part)), part.call_id || '–']);
  return <Table columns={columns} rows={rows} />;
}
