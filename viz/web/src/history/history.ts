/** History of the series that the run is of. */

import { get } from '../shared/api/http';
import type { Request } from '../shared/api/request';
import type { HistoryAnswer } from '../shared/api/types';
import { view } from '../shared/address/address';
import { question } from '../shared/session/question';

export const historyRequest: Request = ['history', []];

export const answer = question(
  () => (view.value.page === 'history' ? '' : null),
  (signal) => get<HistoryAnswer>(...historyRequest, signal),
);
