import { callsCommand } from '../shared/asking/commands';
import { exact } from '../shared/units/units';
import { filtersOf } from '../shared/asking/filters';
import { go, view } from '../shared/address/address';
import { EVERY, ways } from './calls';
import { status } from '../shared/session/session';
import { Empty } from '../shared/parts/panel';

/** Message that no call matches, and how many would without each filter. */
export function Nothing() {
  if (filtersOf(view.value).length === 0)
    return (
      <Empty command={callsCommand}>
        {status.value?.state === 'ended'
          ? 'No call was recorded, because none was abnormal.'
          : 'No call has been recorded yet. Anomalies, and normal calls to compare them with, appear here as they are found.'}
      </Empty>
    );
  const useful = ways.value.value?.filter((way) => way.calls > 0);
  return (
    <div class="empty">
      <Empty command={callsCommand}>Recorded calls stand here, but none matches.{useful?.length === 0 && ' None has been recorded yet.'}</Empty>
      <ul class="ways">
        {useful?.map((way) => (
          <li key={way.text}>
            {way.text === EVERY ? 'Without any filter' : `Without ‘${way.text}’`}: {exact(way.calls)}.{' '}
            <button class="quiet" onClick={() => go({ ...way.drop, cursor: null })}>
              {way.text === EVERY ? 'Drop all filters' : 'Drop filter'}
            </button>
          </li>
        ))}
      </ul>
    </div>
  );
}
