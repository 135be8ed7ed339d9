import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { leadsTo, orderGroups, type Precedence } from './order.js';

const nodes = fc.integer({ min: 1, max: 12 }).map((count) => Array.from({ length: count }, (_, n) => n));
const graphs = nodes.chain((all) =>
  fc.tuple(
    fc.constant(all),
    fc.array(fc.record({ before: fc.constantFrom(...all), after: fc.constantFrom(...all) }), { maxLength: 30 }),
  ),
);

describe('the order in which things wait for each other', () => {
  it('puts every node once, and every precedence inside a group or forwards', () => {
    fc.assert(
      fc.property(graphs, ([all, precedences]) => {
        const groups = orderGroups(all, precedences);
        expect(groups.flatMap(({ members }) => members).sort((a, b) => a - b)).toEqual(all);
        const at = (node: number): number => groups.findIndex(({ members }) => members.includes(node));
        for (const { before, after } of precedences) expect(at(before)).toBeLessThanOrEqual(at(after));
      }),
    );
  });

  it('puts together exactly those that lead to each other', () => {
    fc.assert(
      fc.property(graphs, ([all, precedences]) => {
        const groups = orderGroups(all, precedences);
        for (const { members, cyclic } of groups) {
          for (const a of all) {
            for (const b of members) {
              const together = leadsTo(a, b, precedences) && leadsTo(b, a, precedences);
              if (a !== b) expect(members.includes(a)).toBe(together);
            }
          }
          expect(cyclic).toBe(leadsTo(members[0]!, members[0]!, precedences));
        }
      }),
    );
  });

  it('keeps the given order where nothing waits', () => {
    const none: Precedence<string>[] = [];
    expect(orderGroups(['c', 'a', 'b'], none).map(({ members }) => members[0])).toEqual(['c', 'a', 'b']);
  });
});
