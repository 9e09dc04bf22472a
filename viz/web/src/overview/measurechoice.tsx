import { MEASURES, type Measure } from '../shared/address/model/view';
import { go, view } from '../shared/address/address';

const NAMES: Record<Measure, string> = { lost: 'Time lost', anomalies: 'Anomalies' };

export const measureName = (measure: Measure): string => NAMES[measure];

/** Choice of the measure that the heat map and the chart of steps show. */
export function MeasureChoice({ label }: { label: string }) {
  return (
    <select aria-label={label} value={view.value.measure} onChange={(event) => go({ measure: event.currentTarget.value as Measure })}>
      {MEASURES.map((measure) => (
        <option key={measure} value={measure}>
          {NAMES[measure].toLowerCase()}
        </option>
      ))}
    </select>
  );
}
