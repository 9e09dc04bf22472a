import { showCommand } from '../shared/asking/commands';
import { count, digits, exact, score, sinceStart, wallClock } from '../shared/units/units';
import { callRequest } from '../shared/api/functionrequests';
import { run, zero_us } from '../shared/session/session';
import { Listed } from '../shared/parts/listed';
import type { CallRecord } from '../shared/api/types';

interface Props {
  record: CallRecord;
  normal: CallRecord | null;
}

/** All figures that are kept about the call, beside those of the normal call. */
export function Numbers({ record, normal }: Props) {
  const rows = fieldsOf().map(([name, text]) => [name, text(record), normal === null ? '–' : text(normal)]);
  const columns = [
    ['field', false],
    ['this call', true],
    ['normal call', true],
  ] as const;
  const asks = { json: callRequest(record.id), hasSql: true, command: (directory: string) => showCommand(directory, record.id) };
  return <Listed name="numbers" title="Numbers" columns={columns} rows={rows} nothing="" asks={asks} />;
}

const us = (value: number): string => `${exact(value)} µs`;

function fieldsOf(): [string, (call: CallRecord) => string][] {
  const programs = run.value.value?.programs ?? {};
  const time = (at: number): string => (at === 0 ? 'not yet' : `${sinceStart(at - zero_us.value)} · ${wallClock(at)}`);
  return [
    ['call', (call) => call.id],
    ['judged', (call) => `${call.label === 'anomaly' ? '▲ abnormal' : '○ normal'}${call.is_relabelled ? ', judged differently during the run' : ''}`],
    ['inclusive', (call) => us(call.inclusive_us)],
    ['exclusive', (call) => us(call.exclusive_us)],
    ['expected then', (call) => us(call.expected_us)],
    ['spread then', (call) => us(call.spread_us)],
    ['calls known then', (call) => count(call.seen)],
    ['time lost', (call) => us(call.severity_us)],
    ['score', (call) => score(call.score, run.value.value?.score_unit ?? '')],
    ['detector', (call) => `${call.detector}, model version ${call.model_version}`],
    ['program', (call) => programs[call.program] ?? String(call.program)],
    ['rank', (call) => String(call.rank)],
    ['thread', (call) => `${call.thread}${call.is_gpu ? ', on a GPU' : ''}`],
    ['node', (call) => call.node || 'unknown'],
    ['entry', (call) => time(call.entry_us)],
    ['exit', (call) => time(call.exit_us)],
    ['step of its end', (call) => exact(call.step)],
    ['step from', (call) => time(call.step_start_us)],
    ['step to', (call) => time(call.step_end_us)],
    ['depth', (call) => exact(call.depth)],
    ['children', (call) => exact(call.children)],
    ['messages', (call) => exact(call.messages_count)],
    ['left out by the limit', (call) => exact(call.left_out)],
    ['launched by', (call) => (call.launch_id === '' ? 'unknown' : `${call.launch_id}, thread ${call.launch_thread}`)],
    ['incident', (call) => call.incident_id || 'none'],
    ['record', (call) => `${call.is_final ? 'complete' : 'still growing'}, revision ${call.revision}, version ${digits(call.version)}`],
  ];
}
