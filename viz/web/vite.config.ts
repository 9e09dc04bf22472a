import { defineConfig } from 'vite';

export default defineConfig({
  // Relative addresses: the page also works behind a proxy that adds a path.
  base: './',
  build: {
    outDir: '../static',
    emptyOutDir: true,
    target: 'es2022',
    // The content security policy allows files of the server only, so nothing may become a data: address.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    // A run's page, and the list of the runs of a folder.
    rollupOptions: { input: ['index.html', 'runs.html'] },
  },
  // A process for each file, with modules of its own, would take five times the CPU time (16 s instead of 3).
  test: { include: ['test/**/*.test.ts'], environment: 'node', pool: 'threads', isolate: false },
} as Parameters<typeof defineConfig>[0]);
