/** Data that are requested from the server; the last value stays while the next one is on its way. */

import { batch, computed, signal } from '@preact/signals';

export class Resource<T> {
  readonly value = signal<T | null>(null);
  readonly error = signal<string | null>(null);
  readonly busy = signal(false);
  /** Whether there is neither an answer nor an error. */
  readonly isUnanswered = computed(() => this.value.value === null && this.error.value === null);
  #asking: AbortController | null = null;

  /** Request the data; a newer request cancels an older one. */
  async load(ask: (signal: AbortSignal) => Promise<T>): Promise<void> {
    this.#asking?.abort();
    const asking = new AbortController();
    this.#asking = asking;
    this.busy.value = true;
    try {
      const value = await ask(asking.signal);
      if (this.#asking !== asking) return;
      batch(() => {
        this.value.value = value;
        this.error.value = null;
        this.busy.value = false;
      });
    } catch (error) {
      if (this.#asking !== asking) return;
      batch(() => {
        this.error.value = sentence(error);
        this.busy.value = false;
      });
    }
  }

  clear(): void {
    this.#asking?.abort();
    this.#asking = null;
    batch(() => {
      this.value.value = null;
      this.error.value = null;
      this.busy.value = false;
    });
  }
}

function sentence(error: unknown): string {
  if (error instanceof DOMException && error.name === 'TimeoutError') return 'The request was stopped after 30 s. Narrow the filters, or use the terminal.';
  if (error instanceof TypeError) return 'The server cannot be reached.';
  return error instanceof Error ? error.message : String(error);
}
