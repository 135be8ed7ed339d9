/**
 * The configuration of tests with two real stores: the same declaration for the test, which takes the product's sources, and for
 * a process of its own, which takes the built package. One plan, and so one digest.
 */

/**
 * @param {{ defineConfig: Function, postgres: Function, files: Function }} product
 * @param {{ ownUrl: string, shopUrl: string, root: string }} where
 */
export function twoStores({ defineConfig, postgres, files }, { ownUrl, shopUrl, root }) {
  return defineConfig({
    database: ownUrl,
    subject: { key: 'customerId', identifiers: { customerId: { opaque: true } } },
    targets: {
      operational: postgres({
        url: shopUrl,
        timeouts: { connect: 2_000, statement: 5_000 },
        tables: {
          customer: { key: { customer_id: 'customerId' }, action: 'delete' },
          session: { key: { customer_id: 'customerId' }, action: 'delete', revoke: true },
          invoice: { key: { customer_id: 'customerId' }, action: 'delete' },
          invoice_line: { through: 'invoice', action: 'delete' },
          visit: { key: { customer_id: 'customerId' }, action: 'delete' },
          search_log: { through: { table: 'visit', on: { visit_no: 'no' } }, action: 'delete' },
        },
      }),
      artifacts: files({
        root,
        paths: ['customers/{customerId}/', 'invoices/{invoice}.pdf'],
        locators: { invoice: { target: 'operational', place: 'invoice', column: 'invoice_id' } },
      }),
    },
  });
}
