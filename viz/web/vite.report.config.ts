import { defineConfig } from 'vite';

// The page of a run as one script and one style sheet, which a report has inside of it.
export default defineConfig({
  // Of a script that is no module there is none.
  define: { 'import.meta': '{}' },
  build: {
    outDir: '../static/report',
    emptyOutDir: true,
    target: 'es2022',
    copyPublicDir: false,
    cssCodeSplit: false,
    modulePreload: false,
    rollupOptions: {
      input: 'src/main.tsx',
      output: { format: 'iife', codeSplitting: false, entryFileNames: 'report.js', assetFileNames: 'report[extname]' },
    },
  },
} as Parameters<typeof defineConfig>[0]);
