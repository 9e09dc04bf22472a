import { causeOf } from './model/causes';
import { chainOf, consequenceText, isLoss, originText } from './model/chain';
import { shorten } from '../shared/names/names';
import { showCommand } from '../shared/asking/commands';
import { duration, exact, plural } from '../shared/units/units';
import { incidentRequest } from '../shared/api/requests';
import { addressOf, follow } from '../shared/address/address';
import { Panel } from '../shared/parts/panel';
import { Table } from '../shared/parts/table';
import type { Incident } from '../shared/api/types';

const MOST_SHOWN = 50;

/** Chain of causes: the origin, the calls that waited for it, and those that waited for these. */
export function Chain({ incident, id }: { incident: Incident; id: string }) {
  const chain = chainOf(incident);
  const rest = chain.slice(MOST_SHOWN);
  const all = { page: 'calls', incident: id, label: 'any', call: null, cursor: null } as const;
  return (
    <Panel
      name="chain"
      title="Chain of causes"
      summary={`${plural(chain.length, 'call')} ${chain.length === 1 ? 'was' : 'were'} held up.`}
      asks={{ json: incidentRequest(id), command: (directory) => showCommand(directory, id) }}
      table={() => <ChainTable incident={incident} />}
    >
      <ol class="chain">
        <li class="chain-origin">
          <span class="chain-mark">◆</span>
          <span>
            {incident.call_id === '' ? originText(incident) : <CallLink id={incident.call_id} text={callText(incident)} />}{' '}
            <em>{incident.call_id === '' && !isLoss(incident) ? '' : causeOf(incident.kind).id}</em>
          </span>
        </li>
        {chain.slice(0, MOST_SHOWN).map(({ waited, depth }) => (
          <li key={waited.call_id} style={{ paddingLeft: `${20 * (depth + 1)}px` }} data-depth={depth}>
            <span class="chain-mark" aria-hidden="true">
              ↳
            </span>
            <span>
              <CallLink id={waited.call_id} text={consequenceText(waited)} /> <em>{causeOf(waited.kind).id}</em>
            </span>
          </li>
        ))}
      </ol>
      {rest.length > 0 && (
        <p class="unit">
          and {exact(rest.length)} more, which lost {duration(rest.reduce((sum, { waited }) => sum + waited.lost_us, 0))}:{' '}
          <a href={addressOf(all)} onClick={(event) => follow(event, all)}>
            all its calls
          </a>
        </p>
      )}
    </Panel>
  );
}

const callText = ({ function: name, rank, runtime_us, is_flagged = true }: Incident): string =>
  `${shorten(name, 40).text} on rank ${rank} took ${duration(runtime_us)}${is_flagged ? '' : ' (not flagged)'}`;

function CallLink({ id, text }: { id: string; text: string }) {
  const target = { page: 'call', call: id } as const;
  return (
    <a href={addressOf(target)} title={`Call ${id}`} data-chain-call={id} onClick={(event) => follow(event, target)}>
      {text}
    </a>
  );
}

function ChainTable({ incident }: { incident: Incident }) {
  const columns = [
    { heading: 'call' },
    { heading: 'rank', isNumber: true },
    { heading: 'in' },
    { heading: 'lost, µs', isNumber: true },
    { heading: 'cause' },
    { heading: 'waited for' },
  ];
  const { call_id, rank, function: name, excess_us, kind } = incident;
  const origin = call_id === '' ? [] : [[call_id, rank ?? '–', shorten(name, 40).text, exact(Math.round(excess_us)), kind, '–']];
  const others = chainOf(incident).map(({ waited }) => [
    waited.call_id,
    waited.rank,
    shorten(waited.operation, 40).text,
    exact(Math.round(waited.lost_us)),
    waited.kind,
    waited.for_call_id || 'not known',
  ]);
  return <Table columns={columns} rows={[...origin, ...others]} />;
}
