import { useMemo } from 'preact/hooks';
import { treeRows, type TreeRow } from './model/calltree';
import { shortenAll } from '../shared/names/names';
import { columnUnit, exact, inUnit } from '../shared/units/units';
import * as api from '../shared/api/functionrequests';
import { paths, subject } from './function';
import { addressOf, follow } from '../shared/address/address';
import { FunctionLink } from '../shared/parts/functionlink';
import { Empty, Panel, Reading } from '../shared/parts/panel';

/** Call paths that are listed; a library function can have thousands. */
const MOST_ROWS = 300;

/** The flame graph of the function and what it calls. */
const BELOW = { page: 'flame', frame: '' } as const;

/** Callers of the function: its call paths as a tree, with the time that each lost. */
export function PathsPanel() {
  const of = subject.value;
  const found = paths.value.value;
  const rows = useMemo(() => (found && of ? treeRows(found.paths, of.name) : null), [found, of?.name]);
  const own = rows?.filter((row) => row.isOwn).length ?? 0;
  const summary = rows ? `${exact(own)} call paths lead to this function.` : '';
  const rest = (rows?.length ?? 0) - MOST_ROWS;
  return (
    <Panel
      name="function-paths"
      title="Call paths"
      summary={summary}
      actions={
        <>
          <span class="unit">{own > 0 && `${exact(own)}${rest > 0 ? `, ${exact(rest)} lines not shown` : ''}`}</span>
          <a href={addressOf(BELOW)} onClick={(event) => follow(event, BELOW)} title="Flame graph of this function and what it calls">
            Flame graph
          </a>
        </>
      }
      asks={of === null ? {} : { json: api.pathsRequest(of), hasSql: true }}
    >
      {paths.error.value !== null ? (
        <Empty>{paths.error.value}</Empty>
      ) : rows === null ? (
        <Reading what="its call paths" />
      ) : rows.length === 0 ? (
        <Empty>There are no call paths to this function yet: they arrive a few times in a run.</Empty>
      ) : (
        <Tree rows={rows.slice(0, MOST_ROWS)} />
      )}
    </Panel>
  );
}

function Tree({ rows }: { rows: readonly TreeRow[] }) {
  const names = useMemo(
    () =>
      shortenAll(
        rows.map((row) => row.node.function),
        36,
      ),
    [rows],
  );
  const unit = columnUnit(rows.map((row) => row.node.severity_us));
  const meanUnit = columnUnit(rows.map((row) => row.node.inclusive?.mean_us ?? 0));
  return (
    <table>
      <thead>
        <tr>
          <th>caller › function</th>
          <th class="number">calls</th>
          <th class="number">inclusive, {meanUnit}</th>
          <th class="number">▲</th>
          <th class="number">lost, {unit}</th>
        </tr>
      </thead>
      <tbody>
        {rows.map(({ node, depth, isOwn }, at) => (
          <tr key={at} class={isOwn ? 'selected' : undefined} data-path={isOwn ? (node.path ?? '') : undefined}>
            <td class="name" style={{ paddingLeft: `${8 + 12 * Math.min(depth, 20)}px` }}>
              <FunctionLink name={node.function} program={node.program} text={names.get(node.function)?.text ?? node.function} />
            </td>
            <td class="number">{isOwn && node.calls > 0 ? exact(node.calls) : ''}</td>
            <td class="number">{isOwn && node.inclusive ? inUnit(node.inclusive.mean_us, meanUnit) : ''}</td>
            <td class="number">{isOwn ? exact(node.anomalies) : ''}</td>
            <td class="number">{isOwn ? inUnit(node.severity_us, unit) : ''}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
