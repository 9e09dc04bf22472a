/** Functions of the run for the search; they are requested at the first search. */

import { signal } from '@preact/signals';
import * as api from '../shared/api/requests';
import { question } from '../shared/session/question';

export const searching = signal(false);

export const searchable = question(() => (searching.value ? 'functions' : null), api.getAllFunctions);
