import tseslint from 'typescript-eslint';

const PAGES = ['app', 'overview', 'calls', 'call', 'function', 'incident', 'timeline', 'flame', 'node', 'workflow', 'compare', 'health', 'exports'];
const message = 'What pages share knows none of them.';

export default tseslint.config(
  { ignores: ['src/shared/api/schema.ts'] },
  ...tseslint.configs.recommendedTypeChecked,
  { languageOptions: { parserOptions: { project: './tsconfig.lint.json' } } },
  {
    files: ['src/shared/**'],
    rules: {
      'no-restricted-imports': ['error', { patterns: PAGES.map((page) => ({ group: [`../../${page}/*`, `../../../${page}/*`], message })) }],
    },
  },
);
