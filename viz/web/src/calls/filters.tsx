import { useState } from 'preact/hooks';
import { filtersOf, formatTimes, parseTimes, UNFILTERED } from '../shared/asking/filters';
import { duration, parseDuration } from '../shared/units/units';
import { formatRange, parseRange, parseRankRange } from '../shared/address/model/ranges';
import { LABELS, type LabelWanted, type View } from '../shared/address/model/view';
import { go, view } from '../shared/address/address';
import { Field } from '../shared/parts/field';
import { FindFunction } from './findfunction';

const filter = (change: Partial<View>): true => (go({ ...change, cursor: null }), true);

/** Apply a text that was typed: an empty one drops the filter, and one that cannot be parsed changes nothing. */
function taken<T>(text: string, parse: (text: string) => T | null | undefined, change: (value: T | null) => Partial<View>): boolean {
  const value = text === '' ? null : parse(text);
  return value === undefined || (value === null && text !== '') ? false : filter(change(value));
}

const LABEL_TEXT: Record<LabelWanted, string> = { any: 'all calls', anomaly: 'anomalies', normal: 'normal calls' };

/** Filters of the chart and the table; in a narrow window, some of them are shown on demand. */
export function Filters() {
  const [isOpen, setOpen] = useState(false);
  const { rank, node, thread, steps, times, severity_us, score, label, gpu, text } = view.value;
  const set = filtersOf(view.value).length;
  return (
    <div class="filters" role="search" aria-label="Filters of calls">
      <FindFunction />
      <Field label="Rank" hint="0:3" value={rank ?? ''} apply={(typed) => taken(typed, parseRankRange, (value) => ({ rank: value }))} />
      <Field label="Step" hint="20..30" value={formatRange(steps)} apply={(typed) => taken(typed, parseRange, (value) => ({ steps: value }))} />
      <Field
        label="Severity ≥"
        hint="5 ms"
        value={severity_us > 0 ? duration(severity_us) : ''}
        apply={(typed) => taken(typed, parseDuration, (value) => ({ severity_us: value ?? 0 }))}
      />
      <label class="inline">
        Label
        <select value={label} aria-label="Label" onChange={(event) => filter({ label: event.currentTarget.value as LabelWanted })}>
          {LABELS.map((one) => (
            <option key={one} value={one}>
              {LABEL_TEXT[one]}
            </option>
          ))}
        </select>
      </label>
      <div class="more">
        <button class="more-button" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          More filters {isOpen ? '▴' : '▾'}
        </button>
        <div class={isOpen ? 'more-fields open' : 'more-fields'} onKeyDown={(event) => event.key === 'Escape' && setOpen(false)}>
          <Field label="Node" hint="node0*" value={node} apply={(typed) => filter({ node: typed })} />
          <Field label="Thread" hint="0" value={String(thread ?? '')} apply={(typed) => taken(typed, parseThread, (value) => ({ thread: value }))} />
          <Field label="Time" hint="1.5..2 s" value={formatTimes(times)} apply={(typed) => taken(typed, parseTimes, (value) => ({ times: value }))} />
          <Field
            label="Score ≥"
            hint="6"
            value={score > 0 ? String(score) : ''}
            apply={(typed) => taken(typed, parseScore, (value) => ({ score: value ?? 0 }))}
          />
          <Field label="Text" hint="halo" value={text} apply={(typed) => filter({ text: typed })} />
          <label class="inline">
            GPU
            <select
              value={String(gpu ?? '')}
              aria-label="GPU"
              onChange={(event) => filter({ gpu: { true: true, false: false }[event.currentTarget.value] ?? null })}
            >
              <option value="">anywhere</option>
              <option value="true">on a GPU</option>
              <option value="false">not on a GPU</option>
            </select>
          </label>
        </div>
      </div>
      {set > 0 && (
        <button class="quiet" onClick={() => filter(UNFILTERED)}>
          Drop all filters
        </button>
      )}
    </div>
  );
}

const parseThread = (text: string): number | null => (/^\d{1,9}$/.test(text) ? Number(text) : null);
const parseScore = (text: string): number | null => (/^\d{1,9}(\.\d+)?$/.test(text) ? Number(text) : null);
