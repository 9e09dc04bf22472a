import { useMemo } from 'preact/hooks';
import { NAMELESS, rate, VERDICT_MARKS } from './model/comparison';
import { shortenAll } from '../shared/names/names';
import { count, duration, exact, signed } from '../shared/units/units';
import { addressOf, follow, go, view } from '../shared/address/address';
import { comparison, runs } from './comparison';
import { foldersOf, sideText } from '../shared/address/model/trail';
import { Differential } from './differential';
import { Listed } from '../shared/parts/listed';
import { Progress } from '../shared/parts/progress';
import { Answer, Sentence } from '../shared/parts/sentence';
import { RunsList } from './runslist';
import { Runtimes } from './runtimes';
import { Shifts } from './shifts';
import type { Comparison, ComparisonAnswer, OneSided, RankChange, RunSide, Shift, TimeChange } from '../shared/api/types';

/** Page that compares this run, and those added to it, with other runs; or the list to choose one from. */
export function Compare() {
  return <main class="compare">{view.value.compare === '' ? <RunsList /> : <Changes />}</main>;
}

function Changes() {
  const found = comparison.value.value;
  if (found !== null) return <Page found={found} />;
  const up = { page: 'compare', compare: '', also: '' } as const;
  return (
    <>
      <h1 class="answer">
        What changed from {view.value.compare.split('/').join(', ')} to {[view.value.run, ...foldersOf(view.value.also)].join(', ')}?
      </h1>
      <Progress job={comparison} what={`run ${sideText(view.value.compare)}`} />
      {comparison.busy.value || (
        <a href={addressOf(up)} onClick={(event) => follow(event, up)}>
          Choose another run
        </a>
      )}
    </>
  );
}

function Page({ found }: { found: ComparisonAnswer }) {
  const { comparison: changes, sentences } = found;
  const names = useMemo(
    () =>
      shortenAll(
        [...changes.functions, ...changes.new, ...changes.vanished].map((item) => item.name),
        32,
      ),
    [changes],
  );
  const shown = chosen(changes.functions);
  return (
    <>
      <Answer text={`${sentences[0]}.`} />
      <ul class="sentences">
        {sentences.slice(1).map((sentence) => (
          <li key={sentence}>
            <Sentence text={`${sentence}.`} />
          </li>
        ))}
      </ul>
      <Sides before={changes.before} after={changes.after} />
      <Times rows={changes.times} />
      <div class="changes" style={{ '--rows': changes.functions.length }}>
        <Shifts shifts={changes.functions} names={names} all={found.functions} />
        <Runtimes shift={shown} name={shown ? (names.get(shown.name)?.text ?? shown.name) : ''} />
      </div>
      <Differential shifts={changes.paths} />
      <div class="evidence">
        <Functions name="new" title="New functions" rows={changes.new} nothing="There are no new functions." />
        <Functions name="vanished" title="Vanished functions" rows={changes.vanished} nothing="Every function that ran before ran again." />
        <Anomalies changes={changes} />
        <Ranks rows={changes.ranks} />
      </div>
    </>
  );
}

/** The function of the address, or else the most important one. */
function chosen(shifts: readonly Shift[]): Shift | undefined {
  return shifts.find((shift) => shift.name === view.value.function) ?? shifts[0];
}

function Sides({ before, after }: { before: RunSide; after: RunSide }) {
  const facts: [string, (side: RunSide) => string][] = [
    ['took', (side) => duration(side.duration_us)],
    ['ranks', (side) => exact(side.ranks)],
    ['calls', (side) => count(side.calls)],
    ['time in calls', (side) => duration(side.exclusive_us)],
    ['anomalies per million calls (95 %)', (side) => rate(side.rate)],
  ];
  return (
    <section class="panel facts" aria-label="The runs">
      <table>
        <thead>
          <tr>
            <th>run</th>
            {facts.map(([name]) => (
              <th key={name} class="number">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {(
            [
              ['before', before],
              ['after', after],
            ] as const
          ).map(([when, side]) => (
            <tr key={when}>
              <th scope="row">
                <SideRuns when={when} side={side} />
              </th>
              {facts.map(([name, text]) => (
                <td key={name} class="number">
                  {text(side)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

/** Runs of one side; several on each side show how far equal runs differ. */
function SideRuns({ when, side }: { when: 'before' | 'after'; side: RunSide }) {
  const { compare, also } = view.value;
  const field = when === 'before' ? 'compare' : 'also';
  const folders = foldersOf(view.value[field]);
  const own = runs.value.value?.runs.find((run) => run.is_this)?.folder;
  const used = [own, ...foldersOf(compare), ...foldersOf(also)];
  const others = (runs.value.value?.runs ?? []).filter((run) => !used.includes(run.folder) && (run.ranks ?? 0) > 0);
  const put = (changed: readonly string[]): void => go({ [field]: changed.join('/') });
  // The run whose page this is cannot be dropped from the runs after.
  const droppable = when === 'before' ? folders.length > 1 : folders.length > 0;
  return (
    <span class="side">
      <span class={`swatch ${when}`} aria-hidden="true" />
      {droppable && when === 'after' && <span>{view.value.run}</span>}
      {droppable
        ? folders.map((folder) => (
            <button key={folder} class="chip" aria-label={`Drop ${folder}, ${when}`} onClick={() => put(folders.filter((one) => one !== folder))}>
              {folder} <span aria-hidden="true">×</span>
            </button>
          ))
        : `${side.name},`}
      <span>{side.runs > 1 ? `${when}, mean of ${side.runs} runs` : when}</span>
      {others.length > 0 && (
        <select aria-label={`Another run ${when}`} value="" onChange={(event) => put([...folders, event.currentTarget.value])}>
          <option value="">+ run</option>
          {others.map((run) => (
            <option key={run.folder} value={run.folder}>
              {run.folder}
            </option>
          ))}
        </select>
      )}
    </span>
  );
}

/** Change of the time of each function; these add up to the difference of the runs. */
function Times({ rows }: { rows: readonly TimeChange[] }) {
  const names = useMemo(() => shortenAll(rows.flatMap((row) => (row.name === '' ? [] : [row.name]))), [rows]);
  const cells = rows
    .filter((row) => row.time_us[0] !== row.time_us[1])
    .map((row) => [
      `${VERDICT_MARKS[row.verdict]} ${row.name === '' ? NAMELESS[row.kind] : (names.get(row.name)?.text ?? row.name)}${row.is_waiting ? ', waits' : ''}`,
      signed(row.time_us[1] - row.time_us[0], duration),
      row.name === '' ? '' : row.kind,
      ...row.time_us.map(duration),
      ...row.calls.map((calls) => (row.name === '' ? '' : exact(calls))),
    ]);
  return (
    <Listed
      name="times"
      title="Where the difference comes from"
      columns={[
        ['function', false],
        ['difference', true],
        ['by', false],
        ['time before', true],
        ['time after', true],
        ['calls before', true],
        ['calls after', true],
      ]}
      rows={cells}
      nothing="Both runs took the same time."
      actions={<span class="unit">time of all calls on all ranks; the rows add up</span>}
    />
  );
}

function Functions({ name, title, rows, nothing }: { name: string; title: string; rows: readonly OneSided[]; nothing: string }) {
  const names = useMemo(
    () =>
      shortenAll(
        rows.map((row) => row.name),
        32,
      ),
    [rows],
  );
  const cells = rows.map((row) => [names.get(row.name)?.text ?? row.name, exact(row.calls), duration(row.total_us)]);
  return (
    <Listed
      name={name}
      title={title}
      columns={[
        ['function', false],
        ['calls', true],
        ['time', true],
      ]}
      rows={cells}
      nothing={nothing}
    />
  );
}

/** Functions that are abnormal more often than before or, without any, those that are abnormal most often. */
function Anomalies({ changes }: { changes: Comparison }) {
  const rated = changes.functions.filter((shift) => shift.rates !== null && shift.rates.some((one) => one.anomalies > 0));
  const rows = rated.sort((a, b) => Number(b.has_more_anomalies) - Number(a.has_more_anomalies) || anomalies(b) - anomalies(a));
  const names = useMemo(
    () =>
      shortenAll(
        rows.map((row) => row.name),
        28,
      ),
    [changes],
  );
  const cells = rows.map((row) => [`${row.has_more_anomalies ? '▲ ' : ''}${names.get(row.name)?.text ?? row.name}`, ...(row.rates ?? []).map(rate)]);
  return (
    <Listed
      name="rates"
      title="Anomalies per million; ▲ more"
      columns={[
        ['function', false],
        ['before (95 %)', true],
        ['after (95 %)', true],
      ]}
      rows={cells}
      nothing="Neither run had an abnormal call."
    />
  );
}

function anomalies(shift: Shift): number {
  return (shift.rates?.[0].anomalies ?? 0) + (shift.rates?.[1].anomalies ?? 0);
}

function Ranks({ rows }: { rows: readonly RankChange[] }) {
  const cells = rows.map((row) => [
    `${row.has_more_anomalies ? '▲ ' : ''}${row.program}:${row.rank}`,
    ...row.rates.map((one) => exact(one.anomalies)),
    ...row.severity_us.map(duration),
  ]);
  return (
    <Listed
      name="rank-changes"
      title="Anomalies by rank; ▲ more"
      columns={[
        ['rank', false],
        ['before', true],
        ['after', true],
        ['lost before', true],
        ['lost after', true],
      ]}
      rows={cells}
      nothing="The runs have no rank in common."
    />
  );
}
