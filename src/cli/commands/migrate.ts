import type { MigrateReport } from '../../client/open-database.js';
import type { CommandSpec } from '../command.js';
import { EXIT } from '../exit-codes.js';
import { configOf } from '../session.js';
import { pairs } from '../table.js';

export const migrate: CommandSpec = {
  usage: 'migrate',
  summary: 'bring the database to the schema of this version, and create its roles',
  options: [],
  examples: ['migrate'],
  async run(_args, _options, { output, place }) {
    const { migrateDatabase } = await import('../../client/open-database.js');
    const { database } = await configOf(place);
    const report = await migrateDatabase(database);
    output.result(report, () => forPeople(report));
    if (report.owed.length > 0) {
      output.tell('This connection may not do everything: somebody with the right to has to run the statements above.');
    }
    return EXIT.done;
  },
};

function forPeople({ location, applied, created, owed }: MigrateReport): string {
  const summary = pairs([
    ['database', location],
    ['applied', applied.length === 0 ? 'nothing, it was up to date' : applied.join(', ')],
    ['roles', created.length === 0 ? null : `${created.join(', ')} created`],
  ]);
  return owed.length === 0 ? summary : `${summary}\n\n${owed.map((statement) => `${statement};`).join('\n')}`;
}
