/**
 * Function names, shortened so that a 2,500-character kernel name is recognised in 24 characters.
 *
 * In this order: the source location becomes a field, and a Python file the module before the name; launch prefixes
 * become a tag; wrappers (Kokkos, RAJA, std::function) are replaced by their functor; return type and parameters are
 * dropped, template arguments become <…>, lambdas λ6; if the name is still too long, leading namespaces are dropped,
 * then the middle; equal results in one view get their first differing argument.
 */

export interface ShortName {
  full: string;
  text: string;
  tag: string;
  file: string;
  line: string;
}

const LOCATION = /\s*\[\{([^}]*)\}\s*\{([^}]*)\}(?:-\{[^}]*\})?\]\s*$/;
const PYTHON = /^(.*)\.pyw?$/;
/** Names in PerfFlowAspect's traces of Python; TAU's remarks in capitals are not modules. */
const MODULE = /^([A-Za-z_<][\w.<>]*) \[((?=\w*[a-z])[A-Za-z_]\w*(?:\.\w+)*)\]$/;
const SOURCE = /\.(?:c|cc|cpp|cxx|cu|h|hh|hpp|f|f90|f03|f08)$/i;
const ROOT = '.TAU application';
/** Text that is shown for the root. */
const PROGRAM = '(program)';
const UNRESOLVED = 'addr=<';
const LAUNCH = /^(?:cuda|hip|cu)(?:Module)?LaunchKernel: /;
const THREAD = /^\[PTHREAD\] /;
const KOKKOS_TOOL = /^Kokkos::(parallel_\w+) (.+?)(?: \[device=\d+\])?$/;
const WRAPPER = /^(?:Kokkos::Impl::(?:\w*parallel_launch\w*|Parallel\w+)|RAJA::[\w:]+|std::(?:__1::)?_?_?[Ff]unction\w*)$/;
const LAMBDA = /^\{lambda\(.*\)#(\d+)\}/s;
const OPERATOR = /^operator\s*(?:\(\)|\[\]|[-+*/%^&|~!=<>,]{1,3})(?=\()/;
const CLOSING: Record<string, string> = { '<': '>', '(': ')', '{': '}', '[': ']' };

interface Named {
  module: string;
  rest: string;
  file: string;
  line: string;
}

/** Function, Python module and source location of a stored name. */
function parsed(full: string): Named {
  const name = full.trim();
  const location = LOCATION.exec(name);
  if (location) {
    const file = (location[1] as string).split('/').pop() as string;
    const line = /\d+/.exec(location[2] as string)?.[0] ?? '';
    return { module: PYTHON.exec(file)?.[1] ?? '', rest: name.slice(0, location.index), file, line };
  }
  const [, rest, module] = MODULE.exec(name) ?? [];
  if (rest === undefined || module === undefined) return { module: '', rest: name, file: '', line: '' };
  return SOURCE.test(module) ? { module: '', rest, file: module, line: '' } : { module, rest, file: '', line: '' };
}

const qualified = ({ module, rest }: Named): string => (module === '' ? rest : `${module}.${rest}`);

/** Name as the command line shows it, too: without its source location, and in Python with its module. */
export function shownName(full: string): string {
  if (full === ROOT) return PROGRAM;
  return full.includes(UNRESOLVED) ? full : qualified(parsed(full));
}

/** Name followed by its source location, where that is known. */
export function placedName(full: string): string {
  const { file, line } = parsed(full);
  return file === '' || full.includes(UNRESOLVED) ? shownName(full) : `${shownName(full)} (${line === '' ? file : `${file}:${line}`})`;
}

/** Shorten one name to at most `limit` characters (its tag not counted). */
export function shorten(full: string, limit = 28): ShortName {
  const named = parsed(full);
  const [rest, tag] = taken(full === ROOT ? PROGRAM : qualified(named));
  const text = fit(simplify(unwrap(rest)), limit, named.module === '' ? '::' : '.');
  return { full, text, tag, file: named.file, line: named.line };
}

/** Shorten the names of one view; equal results also show what differs. */
export function shortenAll(names: readonly string[], limit = 28): Map<string, ShortName> {
  const result = new Map<string, ShortName>();
  const groups = new Map<string, string[]>();
  for (const name of new Set(names)) {
    const short = shorten(name, limit);
    result.set(name, short);
    const key = `${short.tag}\n${short.text}`;
    groups.set(key, [...(groups.get(key) ?? []), name]);
  }
  for (const group of groups.values()) {
    if (group.length < 2) continue;
    const words = group.map((name) => name.match(/[A-Za-z_]\w*|\d+/g) ?? []);
    group.forEach((name, index) => {
      const short = result.get(name) as ShortName;
      result.set(name, { ...short, text: `${short.text} ‹${difference(words, index)}›` });
    });
  }
  return result;
}

function difference(words: readonly string[][], index: number): string {
  const own = words[index] as string[];
  for (let at = 0; at < own.length; at++) {
    const same = words.filter((other) => other[at] === own[at]).length;
    if (same < words.length) return own[at] as string;
  }
  return 'shorter';
}

function taken(name: string): [rest: string, tag: string] {
  if (LAUNCH.test(name)) return [name.replace(LAUNCH, ''), 'launch'];
  if (THREAD.test(name)) return [name.replace(THREAD, ''), 'thread'];
  const tool = KOKKOS_TOOL.exec(name);
  return tool ? [tool[2] as string, tool[1] as string] : [name, ''];
}

/** Replace wrappers by the functor that they run. */
function unwrap(name: string): string {
  for (let depth = 0; depth < 8; depth++) {
    const open = name.indexOf('<');
    if (open < 0) return name;
    const head = name.slice(0, open).split(' ').pop() as string;
    if (!WRAPPER.test(head)) return name;
    const parts = splitTop(name.slice(open + 1, closingAt(name, open)), ',');
    name = (parts.find((part) => part.includes('{lambda')) ?? parts[0] ?? '').trim();
  }
  return name;
}

/** Position of the bracket that closes the one at `open`; the end of the text without one. */
function closingAt(text: string, open: number): number {
  const expected: string[] = [];
  for (let at = open; at < text.length; at++) {
    const character = text[at] as string;
    if (character === '-' && text[at + 1] === '>') at++;
    else if (character in CLOSING) expected.push(CLOSING[character] as string);
    else if (character === expected[expected.length - 1]) {
      expected.pop();
      if (expected.length === 0) return at;
    }
  }
  return text.length;
}

function splitTop(text: string, separator: string): string[] {
  const parts: string[] = [];
  let start = 0;
  for (let at = 0; at < text.length; at++) {
    if ((text[at] as string) in CLOSING) at = closingAt(text, at);
    else if (text.startsWith(separator, at)) {
      parts.push(text.slice(start, at));
      at += separator.length - 1;
      start = at + 1;
    }
  }
  return [...parts, text.slice(start)];
}

/** Remove return type, parameters and template arguments; names that are not C++ remain. */
function simplify(name: string): string {
  let kept = '';
  let hadParameters = false;
  for (let at = 0; at < name.length; at++) {
    const rest = name.slice(at);
    const lambda = LAMBDA.exec(name.slice(at, closingAt(name, at) + 1));
    const operator = OPERATOR.exec(rest)?.[0];
    const character = name[at] as string;
    if (rest.startsWith('(anonymous namespace)::')) at += '(anonymous namespace)::'.length - 1;
    else if (character === '{' && lambda) {
      kept += `λ${lambda[1]}`;
      at = closingAt(name, at);
    } else if (operator && !/\w$/.test(kept)) {
      kept += operator;
      at += operator.length - 1;
    } else if (character === '(' && /[\w>~)]$|operator\S+$/.test(kept)) {
      hadParameters = true;
      at = closingAt(name, at);
    } else if (character === '<' && /\w$/.test(kept)) {
      kept += '<…>';
      at = closingAt(name, at);
    } else kept += character;
  }
  if (hadParameters) kept = withoutReturnType(kept);
  return kept.replace(/::λ/g, ' λ');
}

function withoutReturnType(name: string): string {
  const trimmed = name
    .replace(/\s*\[clone [^\]]*\]/g, '')
    .replace(/(?:\s+const|\s*&+)+\s*$/, '')
    .trim();
  const words = trimmed.split(/\s+/);
  const from = words.findIndex((word) => /(?:^|::)operator\W*$/.test(word));
  return from >= 0 ? words.slice(from).join(' ') : (words[words.length - 1] as string);
}

/** Cut a name to `limit` characters: leading namespaces or modules first, then the middle; a lambda keeps its owner and number. */
function fit(text: string, limit: number, separator: string): string {
  const lambda = / λ\d+$/.exec(text)?.[0] ?? '';
  let owner = text.slice(0, text.length - lambda.length);
  const room = Math.max(4, limit - lambda.length);
  const parts = splitTop(owner, separator);
  while (owner.length > room && parts.length > 1) {
    parts.shift();
    owner = parts.join(separator);
  }
  if (owner.length > room) {
    const tail = Math.ceil(((room - 1) * 2) / 3);
    owner = `${owner.slice(0, room - 1 - tail)}…${owner.slice(-tail)}`;
  }
  return owner + lambda;
}

/** Cut a name so that it fits on three lines. */
export function wrapped(name: string, most = 240): string {
  return name.length <= most ? name : `${name.slice(0, most - 1)}…`;
}
