import { callsAnswer } from './model/callpoints';
import { view } from '../shared/address/address';
import { points } from './calls';
import { programs } from '../shared/session/session';
import { Answer } from '../shared/parts/sentence';
import { Calls } from './list';
import { Filters } from './filters';
import { Scatter } from './scatter';
import { Selected } from './selected';

/** Page of calls: those that match the filters, as a chart and as a table, and the selected one beside them. */
export function CallsPage() {
  const found = points.value.value;
  const sentence = points.error.value ?? (found === null ? '' : callsAnswer(found, view.value, programs.value));
  return (
    <main class="calls-page">
      <Answer text={sentence} />
      <Filters />
      <div class="calls-top">
        <Scatter />
        <Selected />
      </div>
      <Calls />
    </main>
  );
}
