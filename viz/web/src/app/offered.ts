/** Pages that the menu, the trail and the search offer. */

import { computed } from '@preact/signals';
import { pagesOf } from '../shared/address/model/trail';
import { run } from '../shared/session/session';

export const offered = computed(() => pagesOf(run.value.value?.has_published ?? false));
