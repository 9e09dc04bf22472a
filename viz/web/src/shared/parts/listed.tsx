import type { ComponentChildren } from 'preact';
import { Empty, Panel } from './panel';
import type { Asks } from './panelmenu';
import { Table } from './table';

interface Props {
  name: string;
  title: string;
  /** Headings, and whether the column has numbers. */
  columns: readonly (readonly [heading: string, isNumber: boolean])[];
  rows: readonly (readonly ComponentChildren[])[];
  /** Text that is shown without rows. */
  nothing: ComponentChildren;
  actions?: ComponentChildren;
  asks?: Asks | undefined;
}

/** Panel with a table. */
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
