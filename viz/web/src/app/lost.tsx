import { isReport } from '../shared/api/report';
import { Empty } from '../shared/parts/panel';
import type { View } from '../shared/address/model/view';

/** What the server says of an address that it does not know; '' where it knows it. */
const refusal = document.querySelector('base')?.dataset['lost'] ?? '';

/** Whether there is no page at the address. */
export const isLost = ({ run }: View): boolean => !isReport && (refusal !== '' || run === '');

/** Says that there is no page here, and leads back. */
export function Lost() {
  return (
    <main class="lost-page">
      <h1 class="answer" data-answer>
        There is no page at this address.
      </h1>
      <Empty>
        {refusal.startsWith('No run') ? `${refusal} ` : ''}Was the address copied whole? <a href={document.baseURI}>Go to the start</a>
      </Empty>
    </main>
  );
}
