/**
 * The configuration of tests with two real stores: the same declaration for the test, which takes the product's sources, and for
 * a process of its own, which takes the built package. One plan, and so one digest.
 */

/**
 * @typedef {{
 *   ownUrl: string, shopUrl: string, root: string,
 *   filesFirst: boolean, withLocators: boolean, statementMs: number, token: boolean,
 * }} Where
 */

/**
 * @template Config
 * @param {{
 *   defineConfig: (config: any) => Config,
 *   postgres: (options: any) => object,
 *   files: (options: any) => object,
 * }} product
 * @param {Where} where
 * @returns {Config}
 */
export function twoStores({ defineConfig, postgres, files }, where) {
  const { ownUrl, shopUrl, root, filesFirst, withLocators, statementMs, token } = where;
  const operational = postgres({
    url: shopUrl,
    timeouts: { connect: 2_000, statement: statementMs, cleanup: statementMs },
    tables: {
      customer: { key: { customer_id: 'customerId' }, action: 'delete' },
      session: { key: { customer_id: 'customerId' }, action: 'delete', revoke: true },
      invoice: { key: { customer_id: 'customerId' }, action: 'delete' },
      invoice_line: { through: 'invoice', action: 'delete' },
      visit: { key: { customer_id: 'customerId' }, action: 'delete' },
      search_log: { through: { table: 'visit', on: { visit_no: 'no' } }, action: 'delete' },
    },
  });
  const artifacts = withLocators
    ? files({
        root,
        paths: ['customers/{customerId}/', 'invoices/{invoice}.pdf'],
        locators: { invoice: { target: 'operational', place: 'invoice', column: 'invoice_id' } },
      })
    : files({ root, paths: ['customers/{customerId}/'] });
  return defineConfig({
    database: ownUrl,
    subject: { key: 'customerId', identifiers: { customerId: { opaque: true } } },
    receipts: { token },
    targets: filesFirst ? { artifacts, operational } : { operational, artifacts },
  });
}
