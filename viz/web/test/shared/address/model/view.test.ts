import { describe, expect, test } from 'vitest';
import { FIRST_VIEW, formatView, parseView, type View } from '../../../../src/shared/address/model/view';

const split = (text: string): View => {
  const [path, query] = text.split('?');
  return parseView(path as string, query ?? '');
};

describe('address', () => {
  const full: View = {
    run: 'heat run/1',
    page: 'call',
    call: '0:1:30:1547',
    incident: 'I12',
    compare: '',
    also: '',
    selected: ['0:3', null, '1:12'],
    statistic: 'stddev',
    n: 12,
    by: 'kurtosis',
    list: 'newest',
    measure: 'anomalies',
    course: 'ranks',
    newest: 100,
    ranks: [0, 499],
    zoom: [10, 99],
    steps: [30, 30],
    rank: '0:1',
    function: 'MPI_* & co?',
    program: 2,
    severity_us: 5000,
    score: 6.5,
    node: 'c0*',
    thread: 3,
    times: [86_000_000, 86_600_000],
    label: 'anomaly',
    gpu: false,
    text: 'halo exchange',
    x: 'inclusive',
    y: 'rank',
    xScale: 'linear',
    yScale: 'log',
    xRange: [-3, 4e12],
    yRange: [0.25, 0.5],
    sort: 'score',
    descending: false,
    cursor: 'kqhz_-A',
    streamOrder: 'rows',
    streamState: 'broken',
    streamCursor: '50',
    lanesFrom: {},
    window: null,
    recent_s: null,
    rows: 'p99',
    open: [128, 255],
    partners: [],
    box: null,
    boxLines: [],
    folded: false,
    messages: false,
    weight: 'time',
    frame: '',
    find: '',
    quantity: '',
    tables: ['ranks', 'steps'],
  };

  test('a view comes back from its address', () => {
    expect(split(formatView(full))).toEqual(full);
    expect(split(formatView({ ...FIRST_VIEW, run: 'heat' }))).toEqual({ ...FIRST_VIEW, run: 'heat' });
  });

  test('a node is what its page is about, with its times and where its lists go on', () => {
    const shown: View = { ...FIRST_VIEW, run: 'heat', page: 'node', node: 'nid 7/a', window: [5, 9], lanesFrom: { threads: '16', cores: '32' } };
    expect(formatView(shown)).toBe('r/heat/node/nid%207%2Fa?t=5..9&threads_from=16&cores_from=32');
    expect(split(formatView(shown))).toEqual(shown);
    expect(formatView({ ...shown, page: 'calls' })).toBe('r/heat/calls?node=nid%207/a');
    expect(split('r/heat/node')).toEqual({ ...FIRST_VIEW, run: 'heat', page: 'node' });
  });

  test('several ranks of a program', () => {
    const shown: View = { ...FIRST_VIEW, run: 'heat', rank: '1:16..31' };
    expect(formatView(shown)).toBe('r/heat?rank=1:16..31');
    expect(split('r/heat?rank=1:16..31')).toEqual(shown);
  });

  test('what a timeline shows is in its own address only', () => {
    const shown: View = {
      ...full,
      page: 'timeline',
      window: [86_000_000, 86_600_000],
      partners: ['0:2', '0:5'],
      folded: true,
      messages: true,
      box: [2_000_000, 86_000_000],
      boxLines: ['0:2', '0:5/1'],
    };
    expect(split(formatView(shown))).toEqual(shown);
    expect(formatView({ ...FIRST_VIEW, run: 'heat', page: 'timeline', rank: '0:3', window: [5, 9], partners: ['0:2'] })).toBe(
      'r/heat/timeline?rank=0:3&t=5..9&with=0:2',
    );
    expect(formatView({ ...shown, page: 'calls' })).not.toMatch(/[?&](t|with|fold)=/);
    const newest: View = { ...FIRST_VIEW, run: 'heat', page: 'timeline', recent_s: 600 };
    expect(formatView(newest)).toBe('r/heat/timeline?t=-600s..now');
    expect(split('r/heat/timeline?t=-600s..now')).toEqual(newest);
    expect(split('r/heat/timeline?with=0:1,x,0:1,0:2').partners).toEqual(['0:1', '0:2']);
  });

  test('what a flame graph shows is in its own address only', () => {
    const shown: View = { ...full, page: 'flame', weight: 'lost', frame: '0a1b2c3d', find: 'MPI_ & co' };
    expect(split(formatView(shown))).toEqual(shown);
    expect(formatView({ ...shown, page: 'calls' })).not.toMatch(/[?&](weight|frame|find)=/);
    expect(split('r/heat/flame?weight=x&frame=zz')).toEqual({ ...FIRST_VIEW, run: 'heat', page: 'flame' });
  });

  test('a screen on the wall has an address that is easily typed', () => {
    expect(split('r/heat?wall')).toEqual({ ...FIRST_VIEW, run: 'heat', page: 'wall' });
    expect(formatView({ ...FIRST_VIEW, run: 'heat', page: 'wall' })).toBe('r/heat/wall');
    expect(split('r/heat/wall').page).toBe('wall');
  });

  test('the quantity stands in the address of the workflow only', () => {
    const shown: View = { ...full, page: 'workflow', quantity: 'application/density/min' };
    expect(split(formatView(shown))).toEqual(shown);
    expect(formatView({ ...shown, page: 'calls' })).not.toMatch(/[?&]quantity=/);
  });

  test('the address is short and readable', () => {
    expect(formatView({ ...FIRST_VIEW, run: 'heat' })).toBe('r/heat');
    expect(formatView({ ...FIRST_VIEW, run: 'heat', page: 'call', call: '0:1:30:1547', selected: ['0:1', '0:3'] })).toBe('r/heat/call/0/1:30:1547?sel=0:1,0:3');
  });

  test.each(['n=0', 'n=x', 'statistic=median', 'sel=a,b', 'zoom=9..3', 'step=x', 'rank=1', 'severity_us=-4', 'sort=name'])(
    'nonsense is left out: %s',
    (query) => expect({ ...split(`r/heat?${query}`), n: 5 }).toEqual({ ...FIRST_VIEW, run: 'heat' }),
  );

  test.each([
    'elsewhere',
    'r/heat/elsewhere',
    'r/heat/call/1',
    'r/heat/calls/more',
    'r/heat/call/0/1:2:3/4',
    'r/heat/incident',
    'r/heat/incident/12',
    'r/heat/incident/I0',
  ])('a path that is none of ours names no run: %s', (path) => expect(split(path).run).toBe(''));

  test.each([
    ['r/heat/calls?call=0:1:2:3', { page: 'calls', call: '0:1:2:3' }],
    ['r/heat/timeline', { page: 'timeline' }],
    ['r/heat/call/0/1%3A2%3A3', { page: 'call', call: '0:1:2:3' }],
    ['r/heat/fn?function=MPI_Recv()', { page: 'function', function: 'MPI_Recv()' }],
    ['r/heat/incident/I12', { page: 'incident', incident: 'I12' }],
    ['r/heat/calls?incident=I12', { page: 'calls', incident: 'I12' }],
    ['r/heat/health', { page: 'health' }],
    ['r/heat/compare', { page: 'compare', compare: '' }],
    ['r/heat/compare/a/b%3F', { page: 'compare', compare: 'a/b?' }],
    ['r/heat/compare/a?also=b/c', { page: 'compare', compare: 'a', also: 'b/c' }],
  ] as const)('%s', (address, expected) => {
    expect(split(address)).toEqual({ ...FIRST_VIEW, run: 'heat', ...expected });
    expect(split(formatView(split(address)))).toEqual(split(address));
  });
});
