/** All keys of the page, as the help and the documentation list them. `app/keys` handles those that work everywhere. */

export const KEYS: readonly (readonly [where: string, keys: readonly (readonly [key: string, text: string])[]])[] = [
  [
    'anywhere',
    [
      ['/', 'find a function, rank, step, call, incident or page'],
      ['?', 'this help'],
      ['Esc', 'close; clear the selection of steps'],
      ['Space', 'pause, resume'],
      ['L', 'all steps; follow new ones'],
      ['[ ]', 'previous, next call or incident in the list, or function in a comparison'],
      ['U', 'one level up the trail'],
      ['H', 'health of the analysis'],
      ['V', 'compare with another run'],
      ['B', 'the headline in big letters, for a screen on the wall; Esc leads back'],
      ['C', 'copy link'],
      ['Shift+C', 'copy command'],
      ['Z', "time of day, time since the run's start"],
      ['T', 'table instead of picture, in the focused panel or in all'],
    ],
  ],
  [
    'in a chart',
    [
      ['arrows, Enter', 'next mark, open it'],
      ['W S + -', 'zoom in, out'],
      ['A D', 'pan'],
      ['0 F', 'show everything, show the selection'],
      ['drag, double click', 'select a range, show everything'],
      ['Shift-drag', 'pan the map of all ranks, the steps, or the timeline'],
      ['Ctrl-wheel', 'zoom at the pointer'],
    ],
  ],
  [
    'on the map of all ranks',
    [
      ['Shift+arrows, Enter', 'select ranks and steps, zoom to them'],
      ['Shift with W S A D, Ctrl-wheel', 'the same along the ranks'],
      ['O, click on the number of a row', 'open a row of several ranks in place, close it'],
    ],
  ],
  [
    'on the page of an incident or finding',
    [
      ['K', 'mark it as known: no more alerts'],
      ['I', 'mark it as ignored: no more alerts, and comparisons leave it out'],
      ['N', 'write a note'],
    ],
  ],
  [
    'on the timeline',
    [
      ['arrows', 'next call on the line, nearest call on the line above or below'],
      ['Enter, double click', 'the page of the call'],
      ['W S A D', 'zoom, pan'],
      ['0 F L', 'all times of the rank, the selected time or call, the newest times (follow new ones)'],
      [', .', 'previous, next call on the line'],
      ['[ ]', 'previous, next abnormal call'],
      ['P', 'caller'],
      ['M', 'select the time of the selected call, or all that is shown: its functions stand below'],
      ['E', 'dragging selects times and lines, or zooms'],
      ['Shift+← Shift+→', 'move the end of the selected time'],
      ['O', 'other end of its message; adds that rank'],
      ['X', 'fold times for which nothing was kept'],
      ['G', 'show all messages, or only those that somebody waited for, and those of the selected call'],
      ['drag', 'zoom to a range'],
    ],
  ],
  [
    'in a flame graph',
    [
      ['arrows', 'caller, widest callee, neighbouring frame'],
      ['Enter, click', 'zoom to the frame'],
      ['Backspace', 'zoom out to its caller'],
      ['0', 'all call paths'],
    ],
  ],
];

/** Marks that mean the same everywhere. */
export const MARKS: readonly (readonly [mark: string, text: string])[] = [
  ['▲', 'abnormal call, slower than usual'],
  ['▼', 'abnormal call, faster than usual'],
  ['○', 'normal call'],
  ['◎', 'recorded normal call, for comparison'],
  ['hatched', 'unknown: not analysed, or analysed but not kept'],
];
