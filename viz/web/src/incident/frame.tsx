import type { ComponentChildren } from 'preact';
import { incidentsCommand } from '../shared/asking/commands';
import type { View } from '../shared/address/model/view';
import { addressOf, follow, view } from '../shared/address/address';
import { Empty, Reading } from '../shared/parts/panel';
import type { Resource } from '../shared/session/resource';

interface FrameProps<T> {
  found: Resource<T>;
  noun: string;
  look?: string;
  children: (answer: T) => ComponentChildren;
}

/** Frame of the pages of incidents and findings: the answer, an error, or that it is being read. */
export function Frame<T>({ found, noun, look = '', children }: FrameProps<T>) {
  const answer = found.value.value;
  return (
    <main class={`detail incident ${look}`}>
      {answer !== null ? (
        children(answer)
      ) : found.error.value !== null ? (
        <>
          <h1 class="answer">This {noun} cannot be shown.</h1>
          <Empty command={(directory) => incidentsCommand(directory, 20)}>
            {found.error.value}. <Go to={{ page: 'overview', incident: null, call: null }} text="Back to the run" />
          </Empty>
        </>
      ) : (
        <Reading what={`${noun} ${view.value.incident}`} />
      )}
    </main>
  );
}

/** How often earlier runs had the same, and since when. */
export function Earlier({ known }: { known: string }) {
  if (known === '') return null;
  return (
    <p class="note" data-earlier>
      Earlier runs of this series had the same: {known}.
    </p>
  );
}

/** Link to another view of the run. */
export function Go({ to, text, isButton }: { to: Partial<View>; text: string; isButton?: boolean }) {
  return (
    <a class={isButton ? 'button' : undefined} href={addressOf(to)} onClick={(event) => follow(event, to)}>
      {text}
    </a>
  );
}
