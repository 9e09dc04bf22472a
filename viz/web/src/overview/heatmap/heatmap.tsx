import { ranked } from '../../shared/names/answer';
import type { Grid } from './model/grid';
import { allPlaces, ranksAt } from './model/heatlayout';
import { shorten } from '../../shared/names/names';
import { duration, exact, plural } from '../../shared/units/units';
import { formatRange } from '../../shared/address/model/ranges';
import { go, view } from '../../shared/address/address';
import { finer, grid, gridAsked, reading, shownSteps } from './grid';
import { programs, status, zero_us } from '../../shared/session/session';
import { Empty, Panel, Reading } from '../../shared/parts/panel';
import { choose } from '../choose';
import { MeasureChoice, measureName } from '../measurechoice';
import { spansText } from './heatcells';
import { HeatChart } from './heatchart';
import { HeatTable } from './heattable';
import type { SilentRank } from '../../shared/api/types';

/** Silent ranks that are named; further ones are counted. */
const NAMED = 3;

/** All ranks over the whole run: time lost or anomalies, and where these are not known. */
export function HeatMap() {
  const shown = grid.value;
  return (
    <Panel
      name="heatmap"
      title="All ranks"
      summary={shown ? summaryOf(shown) : ''}
      actions={
        <>
          <MeasureChoice label="Measure of the colours" />
          <Zoomed shown={shown} />
        </>
      }
      asks={{ json: gridAsked.value }}
      table={() => shown && <HeatTable grid={shown} />}
    >
      {shown === null ? (
        reading.error.value === null ? (
          <Reading what="all ranks" />
        ) : (
          <Empty>{reading.error.value}</Empty>
        )
      ) : shown.rows === 0 || shown.columns === 0 ? (
        <Nothing />
      ) : (
        <HeatChart grid={shown} />
      )}
    </Panel>
  );
}

function Nothing() {
  const { ranks } = view.value;
  if (ranks === null && shownSteps.value === null) return <Empty>No step has been analysed yet. The map fills during the run.</Empty>;
  return (
    <Empty>
      This run has no such ranks or steps.{' '}
      <button class="quiet" onClick={() => go({ ranks: null, zoom: null, newest: 0 })}>
        Show all
      </button>
    </Empty>
  );
}

/** Ranks and steps that are shown, with ways to show all again. */
function Zoomed({ shown }: { shown: Grid | null }) {
  const { ranks } = view.value;
  const steps = shownSteps.value;
  return (
    <>
      {shown && ranks !== null && (
        <button class="quiet" onClick={() => go({ ranks: null })} title="All ranks">
          ranks {spansText(ranksAt(shown, ranks))} → all
        </button>
      )}
      {shown && view.value.open !== null && (
        <button class="quiet" onClick={() => go({ open: null })} title="Close the row that is open">
          open: {spansText(ranksAt(shown, view.value.open))} → close
        </button>
      )}
      {steps !== null && (
        <button class="quiet" onClick={() => go({ zoom: null, newest: 0 })} title="All steps (0)">
          steps {formatRange(steps)} → all
        </button>
      )}
      {finer.error.value !== null && (ranks !== null || steps !== null) && <span class="unit">no finer detail: {finer.error.value}</span>}
      <Silent silent={shown?.silent ?? []} />
    </>
  );
}

/** Ranks that send no steps, in words; the map marks their rows. */
function Silent({ silent }: { silent: readonly SilentRank[] }) {
  if (silent.length === 0) return null;
  const now_us = zero_us.value + (status.value?.clock_us ?? 0);
  return (
    <span
      class="silent"
      title={silent
        .slice(0, 50)
        .map((rank) => silentText(rank, now_us))
        .join('\n')}
    >
      ◂ {exact(silent.length)} silent:{' '}
      {silent.slice(0, NAMED).map((rank) => (
        <button key={rank.rank} class="quiet" data-silent={rank.rank} onClick={() => choose(rank.rank)}>
          {silentText(rank, now_us)}
        </button>
      ))}
      {silent.length > NAMED && ` and ${exact(silent.length - NAMED)} more`}
    </span>
  );
}

function silentText({ rank, function: name, since_us }: SilentRank, now_us: number): string {
  const doing = name === '' ? '' : ` in ${shorten(name, 24).text}`;
  const age = since_us > 0 && now_us > since_us ? ` for ${duration(now_us - since_us)}` : '';
  return `${ranked(rank, programs.value)}${doing}${age}`;
}

function summaryOf(shown: Grid): string {
  const places = allPlaces(shown);
  if (places === null) return 'No rank has reported a step yet.';
  const ranks = plural(places[1] - places[0] + 1, 'rank');
  return `${measureName(view.value.measure)} of ${ranks} by step; the table lists the cells that are not zero. Arrow keys move from cell to cell, Enter selects the worst rank, O opens a row of several ranks; with Shift, arrow keys select an area, and Enter zooms to it.`;
}
