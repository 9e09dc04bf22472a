import type { ComponentChildren } from 'preact';

export interface Column {
  heading: string;
  isNumber?: boolean;
}

interface Props {
  columns: readonly Column[];
  /** Cells by row; the first one names the row. */
  rows: readonly (readonly ComponentChildren[])[];
}

/** Plain table: words are aligned to the left, numbers to the right. */
export function Table({ columns, rows }: Props) {
  return (
    <table>
      <thead>
        <tr>
          {columns.map(({ heading, isNumber }) => (
            <th key={heading} scope="col" class={isNumber ? 'number' : undefined}>
              {heading}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((cells, row) => (
          <tr key={row}>
            {cells.map((cell, at) => (
              <td key={at} class={columns[at]?.isNumber ? 'number' : undefined}>
                {cell}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
