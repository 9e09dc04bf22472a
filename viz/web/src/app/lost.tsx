import { isReport } from '../shared/api/report';
import { Empty } from '../shared/parts/panel';
import type { View } from '../shared/address/model/view';
import { Answer } from '../shared/parts/sentence';

/** The server's message about an address that it does not know; empty where it knows the address. */
const refusal = document.querySelector('base')?.dataset['lost'] ?? '';

/** Whether there is no page at the address. */
export const isLost = ({ run }: View): boolean => !isReport && (refusal !== '' || run === '');

/** Message for an address without a page, with a link to the start. */
export function Lost() {
  return (
    <main class="lost-page">
      <Answer text="There is no page at this address." />
      <Empty>
        {refusal.startsWith('No run') ? `${refusal} ` : ''}Was the whole address copied? <a href={document.baseURI}>Go to the start</a>
      </Empty>
    </main>
  );
}
