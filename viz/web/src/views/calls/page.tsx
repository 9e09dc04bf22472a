import { callsAnswer } from '../../lib/callpoints';
import { view } from '../../state/address';
import { points } from '../../state/calls';
import { programs } from '../../state/session';
import { Calls } from './calls';
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
        {sentence}
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
