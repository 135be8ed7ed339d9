import type { CommandSpec } from '../command.js';
import { EXIT } from '../exit-codes.js';
import { withSession } from '../session.js';
import { readSubject, type SubjectOptions, subjectOptions } from '../subject-words.js';
import { pairs } from '../table.js';

/** REG-1. */
export const status: CommandSpec<SubjectOptions> = {
  usage: 'status',
  summary: 'ask the registry whether a subject is deleted',
  options: subjectOptions(),
  examples: ['status --subject customerId=42', 'status --subject-stdin < subject.json'],
  async run(_args, options, { output, place }) {
    const subject = await readSubject(options);
    return withSession(place, async (client) => {
      const answer = await client.status(subject);
      output.result(answer, () =>
        pairs(Object.entries(answer).map(([name, value]) => [name, value === null ? null : String(value)] as const)),
      );
      // Neither yes nor no: the registry could not be read.
      return answer.status === 'UNKNOWN' ? EXIT.unavailable : EXIT.done;
    });
  },
};
