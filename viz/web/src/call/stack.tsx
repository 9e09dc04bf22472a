import { useMemo } from 'preact/hooks';
import { showCommand } from '../shared/asking/commands';
import { shortenAll } from '../shared/names/names';
import { duration, exact } from '../shared/units/units';
import { callRequest } from '../shared/api/functionrequests';
import { addressOf, follow } from '../shared/address/address';
import { FunctionLink } from '../shared/parts/functionlink';
import { Panel } from '../shared/parts/panel';
import type { CallRecord, StackFrame } from '../shared/api/types';

/** Call stack, the call itself first; for a call on a GPU, also what launched it. */
export function Stack({ record }: { record: CallRecord }) {
  const { call_stack: frames, launch_stack: launch } = record;
  const abnormal = frames.filter((frame) => frame.is_anomaly).length;
  const summary = `${frames.length} calls deep, ${abnormal} of them abnormal.`;
  const asks = { json: callRequest(record.id), command: (directory: string) => showCommand(directory, record.id) };
  return (
    <Panel
      name="stack"
      title="Call stack"
      summary={summary}
      actions={<span class="unit">inclusive</span>}
      asks={asks}
      table={() => <StackTable frames={[...frames, ...launch]} />}
    >
      <Frames record={record} frames={frames} />
      {launch.length > 0 && (
        <>
          <h3 class="launched">
            launched by call {record.launch_id}, thread {record.launch_thread}
          </h3>
          <Frames record={record} frames={launch} />
        </>
      )}
    </Panel>
  );
}

function Frames({ record, frames }: { record: CallRecord; frames: readonly StackFrame[] }) {
  const names = useMemo(
    () =>
      shortenAll(
        frames.map((frame) => frame.function),
        44,
      ),
    [frames],
  );
  return (
    <ol class="stack">
      {frames.map((frame) => {
        const name = names.get(frame.function);
        return (
          <li key={frame.id} class={frame.id === record.id ? 'selected' : undefined} data-frame={frame.id}>
            <Sign frame={frame} isSelf={frame.id === record.id} />
            <span class="stack-name">
              <FunctionLink name={frame.function} program={record.program} text={name?.text ?? frame.function} />
            </span>
            <span class="unit">{name?.file && `${name.file}:${name.line}`}</span>
            <span class="stack-time">{frame.exit_us === 0 ? 'open' : duration(frame.exit_us - frame.entry_us)}</span>
          </li>
        );
      })}
    </ol>
  );
}

/** Mark of an abnormal call on the stack, which leads to its page. */
function Sign({ frame, isSelf }: { frame: StackFrame; isSelf: boolean }) {
  if (!frame.is_anomaly) return <span class="stack-mark">·</span>;
  const target = { page: 'call', call: frame.id } as const;
  if (isSelf) return <span class="stack-mark abnormal">▲</span>;
  return (
    <a
      class="stack-mark abnormal"
      href={addressOf(target)}
      aria-label={`Abnormal call ${frame.id}`}
      title={`Abnormal too: call ${frame.id}`}
      onClick={(event) => follow(event, target)}
    >
      ▲
    </a>
  );
}

function StackTable({ frames }: { frames: readonly StackFrame[] }) {
  return (
    <table>
      <thead>
        <tr>
          <th>function</th>
          <th class="number">inclusive, µs</th>
          <th>abnormal</th>
          <th>call</th>
        </tr>
      </thead>
      <tbody>
        {frames.map((frame) => (
          <tr key={frame.id}>
            <td class="name" title={frame.function}>
              {frame.function}
            </td>
            <td class="number">{frame.exit_us === 0 ? 'open' : exact(frame.exit_us - frame.entry_us)}</td>
            <td>{frame.is_anomaly ? '▲' : ''}</td>
            <td>{frame.id}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
