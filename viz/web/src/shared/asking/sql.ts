/**
 * What panels show, as one SELECT for `chimbuko sql`, on SQLite and PostgreSQL alike. There `:run` stands for the run's
 * number, and `:run_id` for its id.
 */

import type { View } from '../address/model/view';

/** A text as a literal. */
export const literal = (text: string): string => `'${text.replaceAll("'", "''")}'`;

/** Abnormal and normal calls by all that a view limits them to. */
export function callsSql(view: View, zero_us: number, limit: number): string {
  const tables = { anomaly: ['anomalies'], normal: ['normal_calls'], any: ['anomalies', 'normal_calls'] }[view.label];
  const where = ['run_id = :run_id', ...conditions(view, zero_us)].join(' AND ');
  const calls = tables.map((table) => `SELECT * FROM ${table} WHERE ${where}`).join(' UNION ALL ');
  return `${calls} ORDER BY ${view.sort} ${view.descending ? 'DESC' : 'ASC'} LIMIT ${limit}`;
}

function conditions(view: View, zero_us: number): string[] {
  const { rank, node, thread, steps, times, severity_us, score, gpu, text } = view;
  const [program, number] = rank?.split(':') ?? [];
  return [
    ...(number === undefined ? [] : [`program = ${program}`, `rank = ${number}`]),
    ...(node === '' ? [] : [matches('node', node)]),
    ...(thread === null ? [] : [`thread = ${thread}`]),
    ...(steps === null ? [] : [`step BETWEEN ${steps[0]} AND ${steps[1]}`]),
    ...(times === null ? [] : [`entry_us <= ${zero_us + times[1]}`, `coalesce(exit_us, entry_us + inclusive_us) >= ${zero_us + times[0]}`]),
    ...(view.function === '' ? [] : [known(view.function)]),
    ...(severity_us > 0 ? [`severity_us >= ${severity_us}`] : []),
    ...(score > 0 ? [`score >= ${score}`] : []),
    ...(gpu === null ? [] : [gpu ? 'is_gpu' : 'NOT is_gpu']),
    ...(text === '' ? [] : [textCondition(text)]),
  ];
}

/** A name that is itself known is that one alone: C++ signatures contain `*`. */
function known(name: string): string {
  const exact = `function = ${literal(name)}`;
  if (!/[*?]/.test(name)) return exact;
  return `(${exact} OR (${matches('function', name)} AND NOT EXISTS (SELECT 1 FROM functions WHERE run = :run AND name = ${literal(name)})))`;
}

/** A pattern with `*` and `?`. LIKE leaves case aside on SQLite, so each piece must be there as it is written, too. */
function matches(column: string, pattern: string): string {
  if (!/[*?]/.test(pattern)) return `${column} = ${literal(pattern)}`;
  const like = pattern
    .replace(/[\\%_]/g, '\\$&')
    .replaceAll('*', '%')
    .replaceAll('?', '_');
  const pieces = pattern.split(/[*?]+/).filter((piece) => /[a-z]/i.test(piece));
  return [`${column} LIKE ${literal(like)} ESCAPE '\\'`, ...pieces.map((piece) => `replace(${column}, ${literal(piece)}, '') <> ${column}`)].join(' AND ');
}

/** Part of a name on the call path, or of the node's. */
function textCondition(text: string): string {
  const part = literal(`%${text.toLowerCase().replace(/[\\%_]/g, '\\$&')}%`);
  const names = `lower(name) LIKE ${part} ESCAPE '\\'`;
  const paths =
    'WITH RECURSIVE found(number) AS (SELECT p.number FROM paths p JOIN functions f ON f.run = p.run AND f.number = p.function ' +
    `WHERE p.run = :run AND ${names} UNION SELECT p.number FROM paths p JOIN found ON p.parent = found.number WHERE p.run = :run) SELECT number FROM found`;
  return `(lower(node) LIKE ${part} ESCAPE '\\' OR lower(function) LIKE ${part} ESCAPE '\\' OR path IN (${paths}))`;
}

/** One call's numbers, whether it is abnormal or recorded for comparison. */
export function callSql(id: string): string {
  const one = (table: string): string => `SELECT * FROM ${table} WHERE run_id = :run_id AND call = ${literal(id)}`;
  return `${one('anomalies')} UNION ALL ${one('normal_calls')}`;
}

/** A function: its whole name and its program. */
export interface Subject {
  program: number;
  name: string;
}

const ofFunction = ({ program, name }: Subject): string => `run_id = :run_id AND program = ${program} AND function = ${literal(name)}`;
const SUMS = 'count(*) AS anomalies, sum(severity_us) AS severity_us, max(severity_us) AS highest_severity_us, max(score) AS highest_score';

/** Statistics of a function over all its calls. */
export function functionSql({ program, name }: Subject): string {
  return `SELECT f.program, f.name, s.* FROM function_statistics s JOIN functions f ON f.run = s.run AND f.number = s.function WHERE f.run = :run AND f.program = ${program} AND f.name = ${literal(name)}`;
}

/** Its abnormal calls along the run; by steps unless intervals of time are given. */
export function trendSql(subject: Subject, width_us: number | null): string {
  const key = width_us === null ? 'step' : `entry_us / ${width_us} * ${width_us}`;
  return `SELECT ${key} AS ${width_us === null ? 'step' : 'start_us'}, ${SUMS} FROM anomalies WHERE ${ofFunction(subject)} GROUP BY 1 ORDER BY 1`;
}

/** Its abnormal calls by rank, those that cost most first. */
export const ranksSql = (subject: Subject): string =>
  `SELECT program, rank, ${SUMS} FROM anomalies WHERE ${ofFunction(subject)} GROUP BY program, rank ORDER BY sum(severity_us) DESC`;

/** Its worst calls. */
export const worstSql = (subject: Subject, limit: number): string =>
  `SELECT * FROM anomalies WHERE ${ofFunction(subject)} ORDER BY severity_us DESC LIMIT ${limit}`;

/** The call paths that end in it, outermost caller first, with what is known of each. */
export function pathsSql({ program, name }: Subject): string {
  return (
    'WITH RECURSIVE tree(number, function, callers) AS (' +
    "SELECT p.number, p.function, f.name FROM paths p JOIN functions f ON f.run = p.run AND f.number = p.function WHERE p.run = :run AND p.parent = -1 UNION ALL SELECT p.number, p.function, tree.callers || ' > ' || f.name " +
    'FROM paths p JOIN tree ON p.parent = tree.number JOIN functions f ON f.run = p.run AND f.number = p.function WHERE p.run = :run) ' +
    'SELECT tree.number AS path, tree.callers AS functions, s.calls, s.exclusive_mean_us, s.inclusive_mean_us, coalesce(t.anomalies, 0) AS anomalies, coalesce(t.severity_us, 0) AS severity_us ' +
    'FROM tree JOIN functions f ON f.run = :run AND f.number = tree.function LEFT JOIN path_statistics s ON s.run = :run AND s.path = tree.number LEFT JOIN path_totals t ON t.run = :run AND t.path = tree.number ' +
    `WHERE f.program = ${program} AND f.name = ${literal(name)} AND (s.calls > 0 OR t.anomalies > 0) ORDER BY severity_us DESC`
  );
}

/** What a rank says of itself. */
export const metadataSql = (program: number, rank: number): string =>
  'SELECT m.thread, k.text AS key, v.text AS value FROM metadata m JOIN texts k ON k.run = m.run AND k.number = m.key JOIN texts v ON v.run = m.run AND v.number = m.value ' +
  `WHERE m.run = :run AND m.program = ${program} AND m.rank = ${rank} ORDER BY 1, 2`;

/** All values of each counter of a rank together. */
export const countersSql = (program: number, rank: number): string =>
  'SELECT t.text AS counter, c.n, c.mean, CASE WHEN c.n > 1 THEN c.m2 / (c.n - 1) ELSE 0 END AS variance, c.minimum, c.maximum FROM counter_statistics c JOIN texts t ON t.run = c.run AND t.number = c.counter ' +
  `WHERE c.run = :run AND c.program = ${program} AND c.rank = ${rank} ORDER BY 1`;
