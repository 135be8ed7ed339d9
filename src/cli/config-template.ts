/** The configuration that `expunge init` writes: small, and true as it stands. */

/** @param keyFile - the key file that it names, relative to the working directory. */
export function configTemplate(keyFile: string): string {
  return `import { defineConfig } from 'expunge';
import { postgres } from 'expunge/postgres';

export default defineConfig({
  // Expunge's own tables: a PostgreSQL database. Without it, an embedded one in ./.expunge, for trials.
  database: process.env.EXPUNGE_DATABASE_URL,

  // A trial may use the worker's key file for everything. In production every machine gets the file of its own door and no
  // other: guard (applications), client (whoever submits and approves), worker (whoever erases).
  keys: { file: process.env.EXPUNGE_KEYS ?? ${JSON.stringify(keyFile)} },

  // What your systems know people by. \`opaque\` marks random internal ids; \`normalise\` says how the others are compared.
  subject: {
    key: 'customerId',
    identifiers: {
      customerId: { opaque: true },
      email: { normalise: 'email' },
    },
  },

  // Every data system that holds copies. Names of tables and columns are those of the database's catalogue.
  targets: {
    operational: postgres({
      url: process.env.SHOP_URL,
      tables: {
        customer: { key: { customer_id: 'customerId' }, action: 'delete' },
        // invoice: {
        //   key: { customer_id: 'customerId' },
        //   action: 'anonymize',
        //   set: { customer_id: null, billing_address: null },
        //   keep: { basis: 'tax law', from: 'invoice_date', for: 'P10Y' },
        // },
      },
    }),
  },

  // approvals: { required: 1, expireAfter: 'P7D' },
  // bounds: { rows: 10_000, drift: 100 },
  // protected: { customerId: ['0', 'system'] },
});
`;
}
