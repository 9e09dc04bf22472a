import { curvesOf, rangeOf } from '../shared/charts/model/curves';
import { exact, plural } from '../shared/units/units';
import { nameOf, quantityRequest } from '../shared/api/workflowrequests';
import { go } from '../shared/address/address';
import { chosen, published, quantity, start_us } from './workflow';
import { CurveChart, short } from '../shared/charts/curvechart';
import { Empty, Panel, Reading } from '../shared/parts/panel';
import { Table } from '../shared/parts/table';

/** A published quantity over time, with a line for each rank. */
export function QuantityPanel() {
  const known = published.value.value;
  const found = quantity.value.value;
  const name = chosen.value === null ? '' : nameOf(chosen.value);
  const curves = found === null ? [] : curvesOf(found.lines, []);
  const [least, most] = rangeOf(curves);
  const summary = found === null ? '' : `${name}: ${plural(found.lines_total, 'rank')}, from ${short(least)} to ${short(most)}.`;
  return (
    <Panel
      name="quantity"
      title="Published quantities"
      summary={summary}
      actions={
        known !== null &&
        known.quantities.length > 0 && (
          <>
            <select aria-label="Quantity" value={name} onChange={(event) => go({ quantity: event.currentTarget.value }, 'replace')}>
              {known.quantities.map((one) => (
                <option key={nameOf(one)} value={nameOf(one)}>
                  {nameOf(one)}
                </option>
              ))}
            </select>
            <span class="unit">{[note(found?.lines_total ?? 0, curves.length), leftOut(known.left_out)].filter(Boolean).join(' · ')}</span>
          </>
        )
      }
      asks={chosen.value === null ? {} : { json: quantityRequest(chosen.value) }}
      table={curves.length === 0 ? undefined : () => <QuantityTable curves={curves} />}
    >
      {quantity.error.value !== null ? (
        <Empty>{quantity.error.value}</Empty>
      ) : chosen.value === null ? (
        <Empty>No quantity was published.</Empty>
      ) : found === null ? (
        <Reading what="the quantity" />
      ) : (
        <CurveChart label={summary} curves={curves} zero_us={start_us.value} />
      )}
    </Panel>
  );
}

const note = (total: number, shown: number): string => (total > shown ? `${exact(shown)} of ${exact(total)} ranks` : total > 1 ? plural(total, 'rank') : '');

const leftOut = (values: number): string => (values > 0 ? `${exact(values)} values left out to limit the size` : '');

function QuantityTable({ curves }: { curves: ReturnType<typeof curvesOf> }) {
  const text = (value: number | null | undefined): string => (value == null ? 'not a number' : short(value));
  const rows = curves.map((curve) => {
    const [least, most] = rangeOf([curve]);
    return [curve.name, exact(curve.values.length), text(curve.values[0]), text(curve.values[curve.values.length - 1]), short(least), short(most)];
  });
  return <Table columns={[{ heading: 'rank' }, ...['points', 'first', 'last', 'least', 'most'].map((heading) => ({ heading, isNumber: true }))]} rows={rows} />;
}
