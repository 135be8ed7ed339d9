import js from '@eslint/js';
import { defineConfig, globalIgnores } from 'eslint/config';
import tseslint from 'typescript-eslint';

const transactionTime = String.raw`/\b(now|transaction_timestamp|statement_timestamp)\s*\(|\b(current_timestamp|localtimestamp)\b/i`;
const transactionTimeMessage =
  'Use clock_timestamp(): this is the time at which the transaction or statement began, and a wait for a lock makes it wrong.';

const processClockMessage = "The database's clock decides what is durable, never this process's.";

const impureMessage = 'A policy is pure and synchronous: same input, same answer.';

export default defineConfig(
  globalIgnores(['dist/', 'coverage/', '.expunge/', '.test-services/']),
  js.configs.recommended,
  tseslint.configs.recommendedTypeChecked,
  {
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    linterOptions: { reportUnusedDisableDirectives: 'error' },
    rules: {
      eqeqeq: 'error',
      // A floating promise here is a lost lease, or an effect that nobody waited for.
      '@typescript-eslint/no-floating-promises': 'error',
      '@typescript-eslint/no-misused-promises': 'error',
      '@typescript-eslint/return-await': ['error', 'error-handling-correctness-only'],
      '@typescript-eslint/switch-exhaustiveness-check': ['error', { considerDefaultExhaustiveForUnions: true }],
      '@typescript-eslint/consistent-type-imports': ['error', { fixStyle: 'inline-type-imports' }],
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_' }],
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true }],
      // A contract's method is async also where one implementation has nothing to wait for.
      '@typescript-eslint/require-await': 'off',
    },
  },
  {
    // Text that the program prints goes through the command line's printer or the log.
    files: ['src/**/*.ts'],
    ignores: ['src/**/*.test.ts', 'src/cli/**', 'src/demo/**'],
    rules: { 'no-console': 'error' },
  },
  {
    files: ['src/**/*.ts'],
    ignores: ['src/**/*.test.ts'],
    rules: {
      // CommonJS users can require() an ES module only while nothing in its graph awaits at the top level.
      'no-restricted-syntax': ['error', topLevelAwait(), defaultExport()],
    },
  },
  {
    files: ['src/requests/**/*.ts'],
    ignores: ['src/requests/**/*.test.ts'],
    rules: {
      'no-restricted-syntax': [
        'error',
        topLevelAwait(),
        defaultExport(),
        { selector: `TemplateElement[value.raw=${transactionTime}]`, message: transactionTimeMessage },
        { selector: `Literal[value=${transactionTime}]`, message: transactionTimeMessage },
        // sql.fn / eb.fn('now')
        { selector: 'CallExpression > Literal[value=/^now$/i]', message: transactionTimeMessage },
        { selector: 'NewExpression[callee.name="Date"][arguments.length=0]', message: processClockMessage },
        { selector: 'MemberExpression[object.name="Date"][property.name="now"]', message: processClockMessage },
      ],
    },
  },
  {
    files: ['src/**/policy.ts'],
    rules: {
      'no-restricted-globals': [
        'error',
        ...[
          'process',
          'fetch',
          'setTimeout',
          'setInterval',
          'setImmediate',
          'queueMicrotask',
          'performance',
          'crypto',
        ].map((name) => ({ name, message: impureMessage })),
      ],
      'no-restricted-syntax': [
        'error',
        defaultExport(),
        { selector: 'AwaitExpression', message: impureMessage },
        { selector: ':function[async=true]', message: impureMessage },
        { selector: 'NewExpression[callee.name="Date"][arguments.length=0]', message: impureMessage },
        { selector: 'MemberExpression[object.name="Date"][property.name="now"]', message: impureMessage },
        { selector: 'MemberExpression[object.name="Math"][property.name="random"]', message: impureMessage },
      ],
    },
  },
  {
    files: ['**/*.test.ts', 'test/**/*.ts'],
    rules: {
      // An expectation takes a method of a mock without calling it.
      '@typescript-eslint/unbound-method': 'off',
      // expect.any(), expect.stringMatching() and their like are `any`, so that they fit into what is expected.
      '@typescript-eslint/no-unsafe-assignment': 'off',
    },
  },
  {
    files: ['.dependency-cruiser.cjs'],
    languageOptions: { sourceType: 'commonjs', globals: { module: 'writable' } },
  },
  {
    // Its dependencies are installed by whoever measures: types of theirs are not known here.
    files: ['bench/**/*.mjs'],
    ...tseslint.configs.disableTypeChecked,
  },
  {
    files: ['**/*.mjs'],
    rules: {
      // The compiler checks these files too, and knows the names that Node.js brings.
      'no-undef': 'off',
      // The rule does not see a cast that is written as a comment.
      '@typescript-eslint/no-unsafe-assignment': 'off',
    },
  },
);

function topLevelAwait() {
  return {
    selector: ':matches(AwaitExpression, ForOfStatement[await=true]):not(:function *)',
    message: 'No top-level await in src: it would keep CommonJS users from require().',
  };
}

function defaultExport() {
  return { selector: 'ExportDefaultDeclaration', message: 'No default exports: a name is the same everywhere.' };
}
