/** What the search knows: the functions of the run, once somebody searches. */

import { signal } from '@preact/signals';
import * as api from '../shared/api/requests';
import { question } from '../shared/session/question';

export const searching = signal(false);

export const searchable = question(() => (searching.value ? 'functions' : null), api.getAllFunctions);
