import { boxesOf, countsText, ranksByCpu, rangesOf, type Box } from './model/parts';
import { nodeRequest } from '../shared/api/noderequests';
import { Empty, Panel } from '../shared/parts/panel';
import { Table } from '../shared/parts/table';
import type { NodePart, NodeRank } from '../shared/api/types';

interface Props {
  parts: readonly NodePart[];
  ranks: readonly NodeRank[];
  name: string;
}

type ByCpu = ReadonlyMap<number, number[]>;

/** Hardware of the node, with the ranks on the hardware threads that they may use. */
export function Built({ parts, ranks, name }: Props) {
  const byCpu = ranksByCpu(ranks);
  const boxes = boxesOf(parts);
  return (
    <Panel
      name="node-built"
      title="Hardware, and where ranks may run"
      summary={`${countsText(parts)}; ranks may use ${byCpu.size} of them.`}
      actions={<span class="unit">{countsText(parts)}</span>}
      asks={{ json: nodeRequest(name) }}
      table={parts.length === 0 ? undefined : () => <PartTable parts={parts} byCpu={byCpu} />}
    >
      {parts.length === 0 ? (
        <Empty>The hardware is not known yet: agents report it every 10 s, and at the end of the run.</Empty>
      ) : (
        <div class="built">
          {boxes.map((box, at) => (
            <PartBox key={at} box={box} byCpu={byCpu} />
          ))}
          <p class="unit">Below the number of each hardware thread are the ranks that may use it; – means none.</p>
        </div>
      )}
    </Panel>
  );
}

function PartBox({ box, byCpu }: { box: Box; byCpu: ByCpu }) {
  const { kind, physical } = box.part;
  if (kind === 'PU') {
    const ranks = byCpu.get(physical ?? -1) ?? [];
    const title = ranks.length === 0 ? 'no rank may use it' : `rank ${rangesOf(ranks)} may use it`;
    return (
      <div class={ranks.length === 0 ? 'part PU' : 'part PU used'} title={`hardware thread ${physical}: ${title}`} data-cpu={physical}>
        <span class="part-number">{physical}</span>
        <span>{ranks.length === 0 ? '–' : rangesOf(ranks)}</span>
      </div>
    );
  }
  return (
    <div class={`part ${kind}`}>
      <span class="part-name">{box.text}</span>
      {box.children.length > 0 && (
        <div class="part-in">
          {box.children.map((child, at) => (
            <PartBox key={at} box={child} byCpu={byCpu} />
          ))}
        </div>
      )}
    </div>
  );
}

function PartTable({ parts, byCpu }: { parts: readonly NodePart[]; byCpu: ByCpu }) {
  const columns = [
    { heading: 'part' },
    { heading: 'number', isNumber: true },
    { heading: "kernel's number", isNumber: true },
    { heading: 'threads' },
    { heading: 'ranks' },
  ];
  const rows = parts.map((part) => [
    part.kind,
    String(part.logical),
    String(part.physical ?? ''),
    part.cpus,
    part.kind === 'PU' ? rangesOf(byCpu.get(part.physical ?? -1) ?? []) : '',
  ]);
  return <Table columns={columns} rows={rows} />;
}
