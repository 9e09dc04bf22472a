// Many pages without a picture in one process, each with its own copy of the page's modules.
//
// Run: node crowd.mjs WEB ADDRESS TOKEN [QUERY...]
//
// One page for each QUERY of its address. Each line of input is answered by one line of JSON: how many pages are
// linked to the server after "linked", what each of them would show after "shown". It ends with its input.

import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath, pathToFileURL } from 'node:url';

const [web, address, token, ...queries] = process.argv.slice(2);
const { resolve } = createRequire(join(web, 'package.json'));
const { build } = await import(pathToFileURL(resolve('vite')));
const { WebSocket } = (await import(pathToFileURL(resolve('ws')))).default;

const authorization = { Authorization: `Bearer ${token}` };

class OurSocket extends WebSocket {
  constructor(url, protocols) {
    super(url, protocols, { headers: authorization });
  }
}

/** What the page's modules find around them in a browser, and not here. */
function surroundings(query) {
  const location = new URL(`${address}${query}`);
  const window = { addEventListener() {} };
  return {
    window,
    location,
    document: { baseURI: new URL('/', address).href },
    self: { WebSocket: OurSocket, setTimeout, clearTimeout },
    WebSocket: OurSocket,
    addEventListener() {},
    localStorage: { getItem: () => null, setItem() {} },
    fetch: (url, options) => fetch(url, { ...options, headers: authorization }),
  };
}

async function pageCode() {
  const entry = join(dirname(fileURLToPath(import.meta.url)), 'page.ts');
  const built = await build({
    root: web,
    configFile: false,
    logLevel: 'error',
    build: { write: false, minify: false, target: 'es2022', lib: { entry, formats: ['iife'], name: 'page' } },
  });
  return built[0].output[0].code;
}

const code = `${await pageCode()}; return page;`;
const pages = queries.map((query) => {
  const around = surroundings(query);
  return new Function(...Object.keys(around), code)(...Object.values(around));
});
const answers = {
  linked: () => pages.filter((page) => page.isLinked()).length,
  shown: () => pages.map((page) => page.shown()),
};
for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(`${JSON.stringify(answers[line]())}\n`);
}
process.exit(0);
