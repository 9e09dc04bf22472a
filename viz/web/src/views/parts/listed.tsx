import type { ComponentChildren } from 'preact';
import { Empty, Panel } from './panel';
import type { Asks } from './panelmenu';

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
        <div class="scroll">
          <table>
            <thead>
              <tr>
                {columns.map(([heading, number]) => (
                  <th key={heading} class={number ? 'number' : undefined}>
                    {heading}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {rows.map((row, index) => (
                <tr key={index}>
                  {row.map((cell, at) => (
                    <td key={at} class={columns[at]?.[1] ? 'number' : undefined}>
                      {cell}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Panel>
  );
}
