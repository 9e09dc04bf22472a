import { boxLines, flameAnswer, WEIGHT_NAMES } from './model/flamewords';
import { rowsOf, type Frame } from './model/frames';
import { found, frames, matches, rank, zoomed, zoomTo } from './flame';
import { Chart } from './chart';
import { Find } from './find';
import { groupLook, type Look } from './flamepainter';
import { FlameTable } from './table';
import { Heaviest } from './heaviest';
import { allPathsRequest } from '../shared/api/functionrequests';
import { WEIGHTS, type Weight } from '../shared/address/model/view';
import { addressOf, follow, go, view } from '../shared/address/address';
import { FunctionLink } from '../shared/parts/functionlink';
import { GroupLegend } from '../shared/parts/grouplegend';
import { Empty, Panel, Reading } from '../shared/parts/panel';
import { ranked } from '../shared/names/answer';
import { shorten } from '../shared/names/names';
import { programs } from '../shared/session/session';
import type { RankKey } from '../shared/api/types';
import { Answer } from '../shared/parts/sentence';

/** Page of the flame graph: the call paths of all ranks, or of one. */
export function FlamePage() {
  const failure = found.error.value;
  return (
    <main class="flame-page" style={{ '--depth': rowsOf(frames.value) }}>
      <Answer text={found.value.value !== null ? flameAnswer(frames.value, view.value.weight) : (failure ?? '')} />
      <Picture />
      <Chosen />
      {(frames.value[0]?.total_us ?? 0) > 0 && <Heaviest />}
    </main>
  );
}

function Picture() {
  const known = found.value.value;
  const { weight, function: name } = view.value;
  const below = name === '' ? '' : ` below ${shorten(name, 40).text}`;
  const of = `${WEIGHT_NAMES[weight]}${below}, ${rank.value === null ? 'all ranks' : ranked(rank.value, programs.value)}`;
  const isEmpty = (frames.value[0]?.total_us ?? 0) <= 0;
  return (
    <Panel
      name="flame"
      title={`Flame graph: ${of}`}
      summary="Arrow keys move from frame to frame, Enter zooms to one, Backspace to its caller, 0 shows all."
      actions={<Actions />}
      table={isEmpty ? undefined : () => <FlameTable />}
      asks={{ json: allPathsRequest(rank.value), hasSql: rank.value === null }}
    >
      {found.error.value !== null && known === null ? (
        <Empty>{found.error.value}</Empty>
      ) : known === null ? (
        <Reading what="call paths" />
      ) : isEmpty ? (
        <Empty>{weight === 'time' && rank.value !== null ? <NothingOfRank rank={rank.value} /> : NOTHING[weight]}</Empty>
      ) : (
        <Chart
          label={`Flame graph of ${of}`}
          frames={frames.value}
          zoomed={zoomed.value}
          matches={matches.value}
          zoomTo={zoomTo}
          lines={(box) => boxLines(frames.value, box, zoomed.value, weight)}
          look={groupOfPlace}
        />
      )}
    </Panel>
  );
}

const groupOfPlace = (index: number): Look => groupLook(frames.value[index] as Frame);

const NOTHING: Readonly<Record<Weight, string>> = {
  time: 'There are no runtimes by call path yet: they arrive a few times in a run, and imported runs may have none.',
  lost: 'There are no abnormal calls on these call paths, so no time was lost.',
};

function NothingOfRank({ rank: of }: { rank: RankKey }) {
  return (
    <>
      Time in calls of {ranked(of, programs.value)} alone is known once its stream has ended; runs of earlier versions have none.{' '}
      <a href={addressOf(LOST)} onClick={(event) => follow(event, LOST)}>
        Time lost
      </a>
    </>
  );
}

const LOST = { weight: 'lost', frame: '' } as const;

function Actions() {
  const { weight } = view.value;
  return (
    <>
      <label class="inline">
        Width
        <select value={weight} aria-label="Width of frames" onChange={(event) => go({ weight: event.currentTarget.value as Weight })}>
          {WEIGHTS.map((one) => (
            <option key={one} value={one}>
              {WEIGHT_NAMES[one]}
            </option>
          ))}
        </select>
      </label>
      <Find frames={frames.value} zoomed={zoomed.value} matches={matches.value} />
      <span class="space" />
      <GroupLegend />
    </>
  );
}

/** The frame that fills the width, with ways to zoom out, and a hint. */
function Chosen() {
  const { weight } = view.value;
  const frame = frames.value[zoomed.value];
  if (frame === undefined || found.value.value === null) return null;
  return (
    <p class="flame-chosen" data-zoomed={frame.id}>
      {zoomed.value > 0 && (
        <>
          <FunctionLink name={frame.name} program={frame.program} />
          <span class="unit">{boxLines(frames.value, { index: zoomed.value, merged: 0, merged_us: 0 }, zoomed.value, weight).slice(1).join(' · ')}</span>
          <button class="quiet" onClick={() => zoomTo(frame.parent)} title="Zoom out to its caller (Backspace)">
            Caller
          </button>
          <button class="quiet" onClick={() => zoomTo(0)} title="All call paths (0)">
            All
          </button>
        </>
      )}
      {zoomed.value === 0 && <span class="unit">A click zooms to a frame. Callers stand above what they call, the widest first.</span>}
    </p>
  );
}
