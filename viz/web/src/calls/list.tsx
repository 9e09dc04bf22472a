import { queryCommand } from '../shared/asking/commands';
import { exact } from '../shared/units/units';
import { callsRequest, PAGE_SIZE } from '../shared/api/requests';
import { go, view } from '../shared/address/address';
import { calls, filters } from './calls';
import { zero_us } from '../shared/session/session';
import { Empty, NewOrder, Panel, Reading, useHeld } from '../shared/parts/panel';
import { CallTable } from './calltable';
import { Nothing } from './nothing';
import type { CallPage } from '../shared/api/types';

const orderOf = (page: CallPage | null): string => page?.calls.map((row) => row.id).join() ?? '';

/** Table of the calls that match the filters, page by page, the worst first unless sorted otherwise. */
export function Calls() {
  const held = useHeld(calls.value.value, orderOf);
  const { sort, descending, cursor } = view.value;
  held.ask(JSON.stringify([filters.value, sort, descending, cursor]), calls.busy.peek());
  const page = held.shown;
  const summary = page === null ? '' : `${page.is_total_exact ? '' : 'More than '}${exact(page.total)} calls match.`;
  const actions = (
    <>
      <NewOrder held={held} />
      {page !== null && <Pages page={page} />}
    </>
  );
  const asks = {
    json: callsRequest(view.value, zero_us.value),
    hasSql: cursor === null,
    command: (directory: string) => queryCommand(directory, view.value),
  };
  return (
    <Panel name="calls" title="List of calls" summary={summary} actions={actions} hold={held.handlers} asks={asks}>
      {calls.error.value !== null ? (
        <Empty>{calls.error.value}</Empty>
      ) : page === null ? (
        <Reading what="calls" />
      ) : page.calls.length === 0 ? (
        <Nothing />
      ) : (
        <div class="scroll" tabIndex={0}>
          <CallTable rows={page.calls} />
        </div>
      )}
    </Panel>
  );
}

function Pages({ page }: { page: CallPage }) {
  const total = `${exact(page.total)}${page.is_total_exact ? '' : '+'}`;
  return (
    <>
      <span class="unit" data-total={page.total}>
        {page.calls.length < page.total ? `${PAGE_SIZE} at a time of ${total}` : total}
      </span>
      {view.value.cursor !== null && (
        <button class="quiet" onClick={() => go({ cursor: null })}>
          First
        </button>
      )}
      {page.next !== null && (
        <button class="quiet" onClick={() => go({ cursor: page.next })}>
          Next ›
        </button>
      )}
    </>
  );
}
