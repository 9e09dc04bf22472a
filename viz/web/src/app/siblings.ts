/** Alternatives to a part of the trail, requested when its menu is opened. */

import { shorten } from '../shared/names/names';
import { callsOf, rankAndSteps, toNode, toPage, type Crumb } from '../shared/address/model/trail';
import { count, duration } from '../shared/units/units';
import { oneRank } from '../shared/address/model/ranges';
import { FIRST_VIEW, type View } from '../shared/address/model/view';
import * as api from '../shared/api/requests';
import { getNodes } from '../shared/api/noderequests';
import { getSteps } from '../overview/steps/requests';
import { go, view } from '../shared/address/address';
import { detail } from '../calls/calls';
import { offered } from './offered';
import { programs, run, zero_us } from '../shared/session/session';
import type { MenuItem } from '../shared/parts/menu';

const MOST = 12;

const goes = (text: string, change: Partial<View>): MenuItem => ({ text, act: () => go(change) });

const SIBLINGS: Readonly<Record<Crumb['kind'], () => MenuItem[] | Promise<MenuItem[]>>> = {
  run: pagesOfRun,
  page: pagesOfRun,
  program: programsOfRun,
  rank: ranks,
  step: steps,
  call: calls,
  node: nodes,
};

/** Entries of a crumb's menu, or one that says why there are none. */
export async function siblingsOf(kind: Crumb['kind']): Promise<MenuItem[]> {
  try {
    const found = await SIBLINGS[kind]();
    return found.length > 0 ? found : [{ text: 'There is nothing else', act: () => {} }];
  } catch {
    return [{ text: 'The server cannot be reached', act: () => {} }];
  }
}

function pagesOfRun(): MenuItem[] {
  return offered.value.map(([page, name, question]) => goes(`${name}: ${question}`, toPage(page)));
}

function programsOfRun(): MenuItem[] {
  return Object.entries(run.value.value?.programs ?? {}).map(([number, name]) => goes(`${name} (program ${number})`, callsOf(`${number}:0`, null)));
}

async function nodes(): Promise<MenuItem[]> {
  return (await getNodes(whole())).nodes.map(({ name }) => goes(name, toNode(name)));
}

/** Ranks with the most anomalies. */
async function ranks(): Promise<MenuItem[]> {
  const { steps: chosen } = rankAndSteps(view.value, detail.value.value?.record ?? null);
  const { top } = await api.getRanks('total', MOST, whole());
  return top.map((row) => {
    const key = `${row.program}:${row.rank}`;
    return goes(`rank ${programs.value > 1 ? key : row.rank} · ▲ ${count(row.total)}`, {
      ...callsOf(key, view.value.page === 'call' ? null : chosen),
      page: pageBelow(),
    });
  });
}

/** Nearest steps of the rank that have anomalies. */
async function steps(): Promise<MenuItem[]> {
  const { rank: wanted, steps: chosen } = rankAndSteps(view.value, detail.value.value?.record ?? null);
  const rank = oneRank(wanted);
  if (rank === null || chosen === null) return [];
  const history = (await getSteps([rank], whole())).get(rank) ?? [];
  const nearest = history
    .filter((row) => row[4] > 0)
    .sort((a, b) => Math.abs(a[0] - chosen[0]) - Math.abs(b[0] - chosen[0]))
    .slice(0, MOST)
    .sort((a, b) => a[0] - b[0]);
  return nearest.map((row) => goes(`step ${row[0]} · ▲ ${count(row[4])}`, { ...callsOf(rank, [row[0], row[0]]), page: pageBelow() }));
}

/** Abnormal calls of the same rank and step, the worst first. */
async function calls(): Promise<MenuItem[]> {
  const wanted: View = { ...FIRST_VIEW, ...rankAndSteps(view.value, detail.value.value?.record ?? null), label: 'anomaly', sort: 'severity_us' };
  const found = await api.getCalls(wanted, zero_us.value, whole(), MOST);
  return found.calls.map((call) =>
    goes(`${shorten(call.function, 32).text} #${call.id.split(':')[3]} · ${duration(call.severity_us)} lost`, { call: call.id }),
  );
}

/** Page for another rank or step: the timeline stays the timeline, all other pages lead to the calls. */
const pageBelow = (): View['page'] => (view.value.page === 'timeline' ? 'timeline' : 'calls');

const whole = (): AbortSignal => new AbortController().signal;
