import type { Job } from '../session/longquestion';
import { Empty } from './panel';

interface Props {
  job: Job<unknown>;
  /** Text until the first news of the progress. */
  what: string;
}

/** Progress of a long question with a button to cancel it, or the reason why it failed with a button to ask again. */
export function Progress({ job, what }: Props) {
  if (job.cancelled.value) return <Ended job={job} why="Cancelled." />;
  if (job.error.value !== null) return <Ended job={job} why={job.error.value} />;
  const progress = job.progress.value;
  const share = Math.round(100 * (progress?.share ?? 0));
  return (
    <div class="progress" aria-busy="true">
      <span class="skeleton" aria-hidden="true" />
      <p class="progress-text">
        <span>
          {progress === null ? `Reading ${what}` : progress.text} · {share} %
        </span>
        <progress max={100} value={share} aria-label={`Reading ${what}`} />
        <button class="quiet" onClick={() => job.cancel()}>
          Cancel
        </button>
      </p>
    </div>
  );
}

function Ended({ job, why }: { job: Job<unknown>; why: string }) {
  return (
    <Empty>
      {why}{' '}
      <button class="quiet" onClick={() => job.again()}>
        Ask again
      </button>
    </Empty>
  );
}
