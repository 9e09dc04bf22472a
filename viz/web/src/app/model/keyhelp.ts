/** All keys of the page, as help and documents show them. Which of them act anywhere is in `app/keys`. */

export const KEYS: readonly (readonly [where: string, keys: readonly (readonly [key: string, text: string])[]])[] = [
  [
    'anywhere',
    [
      ['/', 'find a function, rank, step, call, incident or page'],
      ['?', 'this help'],
      ['Esc', 'close; clear the choice of steps'],
      ['Space', 'pause, resume'],
      ['L', 'all steps, and those to come'],
      ['[ ]', 'previous, next call or incident of the list, or function of a comparison'],
      ['U', 'one step up the trail'],
      ['H', 'health of the analysis'],
      ['V', 'compare with another run'],
      ['C', 'copy link'],
      ['Shift+C', 'copy command'],
      ['Z', 'wall clock, time since the start'],
      ['T', 'table instead of picture: of the focused panel, or of all'],
    ],
  ],
  [
    'in a chart',
    [
      ['arrows, Enter', 'next mark, open it'],
      ['W S + -', 'zoom in, out'],
      ['A D', 'pan'],
      ['0 F', 'all, what is chosen'],
      ['drag, double click', 'choose a range, all again'],
      ['Shift-drag', 'pan the map of all ranks, the steps, or the timeline'],
      ['Ctrl-wheel', 'zoom at the pointer'],
    ],
  ],
  [
    'on the map of all ranks',
    [
      ['Shift+arrows, Enter', 'choose ranks and steps, zoom to them'],
      ['Shift with W S A D, Ctrl-wheel', 'the same along the ranks'],
    ],
  ],
  [
    'on the timeline',
    [
      ['arrows', 'next call of the line, nearest call of the line above or below'],
      ['Enter, double click', 'the page of the call'],
      ['W S A D', 'zoom, pan'],
      ['0 F L', 'all times of the rank, the selected call, the newest and what comes'],
      [', .', 'previous, next call of the line'],
      ['[ ]', 'previous, next abnormal call'],
      ['P', 'what called it'],
      ['M', 'its message: to the other end; adds the rank'],
      ['X', 'fold the times of which nothing was kept'],
      ['drag', 'zoom to a range'],
    ],
  ],
  [
    'in a flame graph',
    [
      ['arrows', 'caller, widest that is called, frame beside'],
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
  ['◎', 'recorded normal call, to compare with'],
  ['hatched', 'unknown: not analysed, or analysed and not kept'],
];
