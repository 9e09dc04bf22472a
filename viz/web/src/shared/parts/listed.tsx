import type { ComponentChildren } from 'preact';
import { Empty, Panel } from './panel';
import type { Asks } from './panelmenu';
import { Table } from './table';

interface Props {
  name: string;
  title: string;
  /** Heading, and whether numbers stand below it. */
  columns: readonly (readonly [heading: string, isNumber: boolean])[];
  rows: readonly (readonly ComponentChildren[])[];
  /** What is said where there are no rows. */
  nothing: ComponentChildren;
  actions?: ComponentChildren;
  asks?: Asks | undefined;
}

/** A panel that is a table. */
export function Listed({ name, title, columns, rows, nothing, actions, asks }: Props) {
  return (
    <Panel name={name} title={title} summary={`${rows.length} lines.`} actions={actions} asks={asks}>
      {rows.length === 0 ? (
        <Empty>{nothing}</Empty>
      ) : (
        <div class="scroll" tabIndex={0}>
          <Table columns={columns.map(([heading, isNumber]) => ({ heading, isNumber }))} rows={rows} />
        </div>
      )}
    </Panel>
  );
}
