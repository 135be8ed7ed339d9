import type { OrderResult } from '../requests/orders.js';
import { EXIT } from './exit-codes.js';
import type { Output } from './output.js';
import { pairs } from './table.js';

/** Prints what an order did; one that a worker has still to act on says so. */
export function tellOrder(result: OrderResult, output: Output): number {
  output.result(result, () =>
    pairs([
      ['request', result.id],
      ['status', result.status],
    ]),
  );
  if (result.pending_with !== null) {
    output.tell(`${result.pending_with} is at work on it: the order takes effect when the present stage is saved.`);
  }
  return EXIT.done;
}
