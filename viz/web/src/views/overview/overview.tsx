import { overviewAnswer } from '../../lib/answer';
import { run } from '../../state/session';
import { Calls } from '../calls/calls';
import { Empty } from '../parts/panel';
import { Functions } from './functions';
import { Ranks } from './ranks';
import { Steps } from './steps';

/** Where and when: the whole run at once. */
export function Overview() {
  const known = run.value.value;
  const sentence = known === null ? (run.error.value ?? ' ') : overviewAnswer(known);
  return (
    <main class="overview">
      <h1 class="answer" data-answer>
        {sentence}
      </h1>
      {known === null && run.error.value !== null ? (
        <Empty>Nothing can be shown until the server answers.</Empty>
      ) : (
        <>
          <div class="row">
            <Ranks />
            <Steps />
            <Functions />
          </div>
          <Calls />
        </>
      )}
    </main>
  );
}
