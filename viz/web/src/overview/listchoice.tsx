import { LISTS, type List } from '../shared/address/model/view';
import { go, view } from '../shared/address/address';
import { list } from './overview';

const NAMES: Record<List, string> = { incidents: 'most costly', worst: 'worst calls', newest: 'newest calls' };

/** Choice of the list beside the heat map; incidents are offered only where there are some. */
export function ListChoice() {
  const hasIncidents = view.value.list !== 'incidents' || list.value === 'incidents';
  return (
    <select aria-label="List" value={list.value} onChange={(event) => go({ list: event.currentTarget.value as List })}>
      {LISTS.filter((name) => name !== 'incidents' || hasIncidents).map((name) => (
        <option key={name} value={name}>
          {NAMES[name]}
        </option>
      ))}
    </select>
  );
}
