/** What a target says: counts, and never content or keys (contracts WF-2 and WF-12). */
import { inspect } from 'node:util';
import type { JsonValue } from '../../storage/json.js';
import type { TargetSubject } from '../../targets/target.js';
import { must, type Check, type CheckContext } from '../check.js';
import { eraseAll, quiet } from '../drive.js';
import { batchOf } from '../subjects.js';

/** Bytes that a cursor may have as JSON: it is saved after every slice of every subject. */
const CURSOR_BYTES = 2048;

const saysNothing: Check = {
  id: 'says-nothing-of-the-data',
  title: 'puts no content and no key into its answers, cursors and errors',
  contract: 'WF-2, WF-12',
  async run(context) {
    const { harness, subjects } = context;
    const subject = subjects.ordinary();
    const secret = subjects.secret();
    await harness.plant(subject, 3, secret);
    const forbidden = [secret, ...valuesOf(subject)];
    await listen(context, subject, forbidden, 'with the store in order');
    for (const kind of (['down', 'half', 'missing'] as const).filter((kind) =>
      context.options.faults?.includes(kind),
    )) {
      const undo = await harness.fault(kind);
      try {
        await listen(context, subject, forbidden, `with the fault '${kind}'`);
      } finally {
        await undo();
      }
    }
  },
};

function valuesOf(subject: TargetSubject): readonly string[] {
  return [...Object.values(subject.identifiers), ...Object.values(subject.locators).flat()];
}

/** Makes every call and looks through whatever comes back, the causes of errors too: loggers print them. */
async function listen(
  { harness }: CheckContext,
  subject: TargetSubject,
  forbidden: readonly string[],
  when: string,
): Promise<void> {
  const { target } = harness;
  const batch = batchOf([subject]);
  const starting = new Map([...batch].map(([ref, member]) => [ref, { ...member, cursor: null }]));
  const calls: readonly (readonly [string, () => Promise<unknown> | undefined])[] = [
    ['describe', () => target.describe(quiet())],
    ['count', () => target.count(batch, quiet())],
    ['erase', () => target.erase(starting, { limit: 1, signal: quiet() })],
    ['count', () => target.count(batch, quiet())],
    ['revoke', () => target.revoke?.(batch, quiet())],
  ];
  for (const [call, make] of calls) {
    const said = await Promise.resolve(make()).catch((error: unknown) => error);
    const text = inspect(said, { depth: 12, maxStringLength: null, maxArrayLength: null, breakLength: Infinity });
    must(
      forbidden.every((word) => !text.includes(word)),
      `${call}() gave away a value of the subject or its content, ${when}: answers, cursors and errors hold neither`,
    );
  }
}

const smallCursor: Check = {
  id: 'keeps-its-cursor-small',
  title: 'answers with cursors that are small, plain JSON',
  contract: 'WF-15',
  async run(context) {
    const { harness, subjects } = context;
    const subject = subjects.ordinary();
    const batch = batchOf([subject]);
    await harness.plant(subject, 120, subjects.secret());
    let cursor: JsonValue = null;
    for (let slice = 0; slice < 10; slice += 1) {
      const starting = new Map([...batch].map(([ref, member]) => [ref, { ...member, cursor }]));
      const answers = await harness.target.erase(starting, { limit: 11, signal: quiet() });
      for (const progress of answers.values()) {
        must('cursor' in progress && isPlain(progress.cursor), 'erase() answered with a cursor that is not plain JSON');
        const bytes = Buffer.byteLength(JSON.stringify(progress.cursor));
        must(bytes <= CURSOR_BYTES, `a cursor has ${bytes} bytes as JSON; at most ${CURSOR_BYTES} are allowed`);
        cursor = progress.cursor;
      }
    }
    await eraseAll(harness.target, [subject], { cursor });
  },
};

/** Whether the value comes back from JSON as it was: no date, no undefined, no NaN, no class. */
function isPlain(value: unknown): boolean {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return true;
  if (typeof value === 'number') return Number.isFinite(value);
  if (Array.isArray(value)) return value.every(isPlain);
  if (typeof value !== 'object') return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return (prototype === Object.prototype || prototype === null) && Object.values(value).every(isPlain);
}

export const discretionChecks: readonly Check[] = [saysNothing, smallCursor];
