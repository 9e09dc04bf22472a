import { knownShare, knownTime, partsIn, selectionAnswer } from './model/selection';
import { selectionRequest } from './requests';
import { rangeText } from './model/timelinewords';
import { shortenAll } from '../shared/names/names';
import { columnUnit, exact, inUnit, percent } from '../shared/units/units';
import type { Range } from '../shared/address/model/ranges';
import { zero_us } from '../shared/session/session';
import { FunctionLink } from '../shared/parts/functionlink';
import { Empty, Panel, Reading } from '../shared/parts/panel';
import { Table } from '../shared/parts/table';
import type { SelectionAnswer } from '../shared/api/types';
import * as timeline from './timeline';

/** Most functions that are listed: the others have little of the time. */
const MOST_LISTED = 100;

/** Functions of the time that is selected. */
export function Selected({ times }: { times: Range }) {
  const found = timeline.selection.value.value;
  const error = timeline.selection.error.value;
  return (
    <Panel
      name="selected"
      title={`Selected time, ${rangeText(...times, zero_us.value)}`}
      summary={found === null ? '' : selectionAnswer(found)}
      actions={
        <>
          <button class="quiet" onClick={timeline.fitChosen} title="Zoom to the selected time (F)">
            Zoom
          </button>
          <button class="quiet" onClick={() => timeline.select(null)} title="Select no time (Esc)">
            Clear
          </button>
        </>
      }
      asks={{ json: selectionRequest(times, timeline.boxLines.value) }}
    >
      {error !== null ? <Empty>{error}</Empty> : found === null ? <Reading what="the functions of this time" /> : <Functions found={found} times={times} />}
    </Panel>
  );
}

function Functions({ found, times }: { found: SelectionAnswer; times: Range }) {
  const { functions, lines } = found;
  const of_ranks = [...timeline.bands.value].filter(([rank]) => lines.some((line) => line.rank === rank)).map(([, bands]) => bands.times);
  const known_us = Math.max(1, knownTime(found));
  const listed = functions.slice(0, MOST_LISTED);
  const names = shortenAll(
    listed.map((one) => one.function),
    40,
  );
  const unit = columnUnit(listed.flatMap((one) => [one.exclusive_us, one.inclusive_us]));
  return (
    <>
      <p class="hint" data-selection>
        {selectionAnswer(found)} {partsIn(of_ranks, times)}
      </p>
      {listed.length > 0 && (
        <Table
          columns={[
            { heading: 'function' },
            { heading: 'calls', isNumber: true },
            { heading: `own time, ${unit}`, isNumber: true },
            { heading: knownShare(found) > 0.995 ? 'of the time' : 'of what is kept', isNumber: true },
            { heading: `with callees, ${unit}`, isNumber: true },
            { heading: 'abnormal', isNumber: true },
          ]}
          rows={listed.map((one) => [
            <FunctionLink key="name" name={one.function} program={Number(lines[0]?.rank.split(':')[0])} text={names.get(one.function)?.text ?? one.function} />,
            exact(one.calls),
            inUnit(one.exclusive_us, unit),
            percent(one.exclusive_us / known_us),
            inUnit(one.inclusive_us, unit),
            one.anomalies === 0 ? '' : `▲ ${exact(one.anomalies)}`,
          ])}
        />
      )}
      {functions.length > listed.length && <p class="hint">{exact(functions.length - listed.length)} more functions have less time.</p>}
    </>
  );
}
