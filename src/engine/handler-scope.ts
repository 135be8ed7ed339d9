/** The signal of one handler call, made of the process's and of the leases'. */

/**
 * Aborts when the process is to stop, or when every lease of the batch is lost. Leases outlive many calls: `close` takes the
 * listeners off them, which `AbortSignal.any` would leave to the garbage collector.
 */
export class HandlerScope {
  readonly #controller = new AbortController();
  readonly #stop: AbortSignal;
  readonly #leases: readonly AbortSignal[];

  /** @param stop - the process is to stop. @param leases - each aborts when its lease is lost; at least one. */
  constructor(stop: AbortSignal, leases: readonly AbortSignal[]) {
    this.#stop = stop;
    this.#leases = leases;
    stop.addEventListener('abort', this.#onStop);
    for (const lease of leases) lease.addEventListener('abort', this.#onLost);
    if (stop.aborted) this.#onStop();
    this.#onLost();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  close(): void {
    this.#stop.removeEventListener('abort', this.#onStop);
    for (const lease of this.#leases) lease.removeEventListener('abort', this.#onLost);
  }

  readonly #onStop = (): void => {
    this.#controller.abort(this.#stop.reason);
  };

  readonly #onLost = (): void => {
    if (this.#leases.every(({ aborted }) => aborted)) this.#controller.abort();
  };
}
