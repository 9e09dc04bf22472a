import { useState } from 'preact/hooks';
import { settings } from './model/health';
import { wallClock } from '../shared/units/units';
import { metadata, metadataRank } from './health';
import { run } from '../shared/session/session';
import { Empty, Panel, Reading } from '../shared/parts/panel';
import { Table } from '../shared/parts/table';

const NAMED = [{ heading: 'what' }, { heading: 'value' }];

/** Description of the run: its command, machines and versions. */
export function RunDescription() {
  const known = run.value.value;
  if (known === null) return <Reading what="the run" />;
  const ended = known.ended_us === 0 ? 'still running' : `${wallClock(known.ended_us)}${known.exit_code === null ? '' : `, exit ${known.exit_code}`}`;
  const rows = [
    ['command', <code>{known.command.join(' ')}</code>],
    ['folder', <code>{known.directory}</code>],
    ['began', wallClock(known.started_us)],
    ['ended', ended],
    [
      'programs',
      Object.entries(known.programs)
        .map(([number, name]) => `${number}: ${name}`)
        .join(', '),
    ],
    ['host', known.host],
    ['Chimbuko', known.version],
    ...Object.entries(known.environment),
  ];
  return (
    <Panel name="description" title="The run" summary={`Started as ${known.command.join(' ')}.`} asks={{ json: ['run', []] }}>
      <Table columns={NAMED} rows={rows} />
    </Panel>
  );
}

/** Settings of the detector, and of what is kept. */
export function Detector() {
  const known = run.value.value;
  if (known === null) return <Reading what="the settings" />;
  return (
    <Panel name="detector" title="Detector" summary={`Calls are judged by ${known.config.detector}.`} asks={{ json: ['run', []] }}>
      <Table columns={NAMED} rows={settings(known.config)} />
    </Panel>
  );
}

/** Metadata that the application's streams carry: TAU's settings, the machine, the program. */
export function Metadata() {
  const [wanted, setWanted] = useState('');
  const answer = metadata.value.value;
  const words = wanted.toLowerCase().split(/\s+/);
  const rows = (answer?.metadata ?? []).filter((row) => words.every((word) => `${row.key} ${row.value}`.toLowerCase().includes(word)));
  const actions = (
    <label class="inline">
      Find
      <input class="narrow" type="text" placeholder="TAU_" spellcheck={false} value={wanted} onInput={(event) => setWanted(event.currentTarget.value)} />
    </label>
  );
  return (
    <Panel name="metadata" title={`Metadata of rank ${metadataRank()}`} summary={`${rows.length} entries.`} actions={actions}>
      {metadata.error.value !== null ? (
        <Empty>{metadata.error.value}</Empty>
      ) : answer === null ? (
        <Reading what="metadata" />
      ) : rows.length === 0 ? (
        <Empty>
          {answer.total === 0
            ? 'The streams of this rank have no metadata. For another rank, put rank=0:3 into the address, or search for it.'
            : 'No entry contains this text.'}
        </Empty>
      ) : (
        <Table columns={NAMED} rows={rows.map((row) => [row.thread > 0 ? `${row.key} (thread ${row.thread})` : row.key, row.value])} />
      )}
    </Panel>
  );
}
