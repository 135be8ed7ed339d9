/**
 * The import rules of the house. Types count like values: a type that a lower layer takes from a higher one is the same
 * mistake. Tests stand outside the layers: they may plant rows and start servers with whatever it takes.
 */

/** From the top down. A folder imports from its own line and from the lines below it. */
const layers = [
  ['cli', 'demo'],
  ['client'],
  ['config', 'workflows', 'maintenance', 'sweeps', 'restore'],
  ['engine', 'targets', 'actors', 'boundary'],
  ['requests', 'registry', 'schema'],
  ['evidence', 'keys', 'subject'],
  ['storage'],
];

/** Drivers and SDKs, each with the folder that may import it. Whoever adds one adds it here. */
const drivers = {
  pg: 'postgres',
  '@electric-sql/pglite': 'pglite',
  '@duckdb/node-api': 'duckdb',
  libsql: 'sqlite',
};

const policy = String.raw`^src/.*/policy\.ts$`;
const driver = `^node_modules/(@types/)?(${Object.keys(drivers).join('|')})/`;

/** @param {string[]} names */
const folders = (names) => `^src/(${names.join('|')})/`;

const importsGoDown = layers.slice(1).map((layer, index) => ({
  name: `imports-go-down-from-${layer.join('-')}`,
  comment: `What is above ${layer.join(', ')} imports them, not the other way round.`,
  severity: 'error',
  from: { path: folders(layer) },
  to: { path: folders(layers.slice(0, index + 1).flat()) },
}));

const driversAtHome = Object.entries(drivers).map(([name, folder]) => ({
  name: `${folder}-driver-at-home`,
  comment: `${name} is imported only in a folder named ${folder}.`,
  severity: 'error',
  // The demo's shop plays a company's own application, which has its driver in its own hands.
  from: { path: '^src/', pathNot: [`/${folder}/`, String.raw`^src/demo/demo-shop\.ts$`] },
  to: { path: `^node_modules/(@types/)?${name}/` },
}));

/** @type {import('dependency-cruiser').IConfiguration} */
module.exports = {
  forbidden: [
    {
      name: 'no-circles',
      severity: 'error',
      from: {},
      to: { circular: true },
    },
    {
      name: 'no-circles-of-folders',
      comment: 'Folders of one layer may import each other, in one direction.',
      severity: 'error',
      scope: 'folder',
      from: { path: '^(src/[^/]+)' },
      to: { circular: true, pathNot: '^$1(/|$)' },
    },
    ...importsGoDown,
    ...driversAtHome,
    {
      name: 'observe-imports-none',
      comment: 'Everybody may log and count, so that what logs and counts knows nobody.',
      severity: 'error',
      from: { path: '^src/observe/' },
      to: { path: '^src/', pathNot: '^src/observe/' },
    },
    {
      name: 'engine-knows-no-target',
      severity: 'error',
      from: { path: '^src/engine/' },
      to: { path: '^src/(targets|actors|boundary)/' },
    },
    {
      name: 'policy-does-no-io',
      comment: 'A policy decides from saved history alone: no driver and no database handle.',
      severity: 'error',
      from: { path: policy },
      to: { path: [driver, '^src/storage/(postgres|pglite)/'] },
    },
    {
      name: 'policy-asks-nothing-of-node',
      severity: 'error',
      from: { path: policy },
      to: { dependencyTypes: ['core'] },
    },
    {
      name: 'nothing-imports-an-entry',
      comment: 'The entries are for those outside. Inside, import the file that holds the subject.',
      severity: 'error',
      from: { path: '^src/' },
      to: { path: String.raw`^src/(index|guard)\.ts$` },
    },
    {
      name: 'only-testing-is-for-tests',
      comment: 'The conformance kit ships to authors of targets; the product does not run it.',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/testing/' },
      to: { path: ['^src/testing/', '^test/'] },
    },
    {
      name: 'only-what-is-installed',
      comment: 'What src imports at run time is installed with the package.',
      severity: 'error',
      from: { path: '^src/' },
      to: {
        dependencyTypes: ['npm-dev', 'npm-no-pkg', 'npm-unknown', 'unknown', 'undetermined'],
        // Drivers of targets are optional peers, and installed here for the tests.
        dependencyTypesNot: ['type-only', 'npm-peer'],
      },
    },
    {
      name: 'resolves',
      severity: 'error',
      from: {},
      to: { couldNotResolve: true },
    },
  ],
  options: {
    tsConfig: { fileName: 'tsconfig.json' },
    tsPreCompilationDeps: true,
    doNotFollow: { path: ['node_modules', '^test/'] },
    exclude: { path: String.raw`\.test\.ts$` },
    enhancedResolveOptions: { exportsFields: ['exports'], conditionNames: ['types', 'import', 'node', 'default'] },
  },
};
