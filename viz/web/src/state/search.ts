/** What the search knows: the functions of the run, once somebody searches. */

import { signal } from '@preact/signals';
import * as api from '../net/api';
import { question } from './question';

export const searching = signal(false);

export const searchable = question(() => (searching.value ? 'functions' : null), api.getAllFunctions);
