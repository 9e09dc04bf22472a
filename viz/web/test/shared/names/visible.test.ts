import { expect, test } from 'vitest';
import { visible } from '../../../src/shared/names/visible';

test('what turns the direction of writing is written out, and letters of all languages stay', () => {
  expect(visible('solve\u202etxt.exe\u2066 a\u001b[2J')).toBe('solve\\u202etxt.exe\\u2066 a\\u001b[2J');
  expect(visible('mésh 网格 שלום\n\tμs')).toBe('mésh 网格 שלום\n\tμs');
});
