/** The signal of one handler call, made of the process's and of the leases'. */

/** Aborts when the process is to stop, or when every lease of the batch is lost. `close` takes its listeners off both. */
export class HandlerScope {
  readonly #controller = new AbortController();
  readonly #stop: AbortSignal;
  readonly #unwatch: () => void;

  /** @param stop - the process is to stop. @param watch - calls back when every lease of the batch is lost; returns its end. */
  constructor(stop: AbortSignal, watch: (onAllLost: () => void) => () => void) {
    this.#stop = stop;
    stop.addEventListener('abort', this.#onStop);
    this.#unwatch = watch(() => this.#controller.abort());
    if (stop.aborted) this.#onStop();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  close(): void {
    this.#stop.removeEventListener('abort', this.#onStop);
    this.#unwatch();
  }

  readonly #onStop = (): void => {
    this.#controller.abort(this.#stop.reason);
  };
}
