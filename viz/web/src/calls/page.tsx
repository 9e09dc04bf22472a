import { callsAnswer } from './model/callpoints';
import { view } from '../shared/address/address';
import { points } from './calls';
import { programs } from '../shared/session/session';
import { Sentence } from '../shared/parts/sentence';
import { Calls } from './list';
import { Filters } from './filters';
import { Scatter } from './scatter';
import { Selected } from './selected';

/** Which call: those of a rank and step, or of any filter, as marks and as a table, and one of them beside. */
export function CallsPage() {
  const found = points.value.value;
  const sentence = points.error.value ?? (found === null ? ' ' : callsAnswer(found, view.value, programs.value));
  return (
    <main class="calls-page">
      <h1 class="answer" data-answer>
        <Sentence text={sentence} />
      </h1>
      <Filters />
      <div class="calls-top">
        <Scatter />
        <Selected />
      </div>
      <Calls />
    </main>
  );
}
