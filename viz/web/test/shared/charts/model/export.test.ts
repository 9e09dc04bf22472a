import { describe, expect, test } from 'vitest';
import { csvOf, escaped, fileName, svgFile, tag } from '../../../../src/shared/charts/model/export';

describe('CSV', () => {
  test('numbers lose the commas that group them, texts are quoted where it takes that', () => {
    expect(
      csvOf([
        ['function', 'calls', 'lost, ms'],
        ['f<int, long>', '1,234,567', '−12.5'],
        ['say "no"', '1,2', ''],
      ]),
    ).toBe('function,calls,"lost, ms"\r\n"f<int, long>",1234567,-12.5\r\n"say ""no""","1,2",\r\n');
  });
});

test('a file is named after what is in it, in plain characters', () => {
  expect(fileName(['my run/é', 'steps'], 'png')).toBe('my-run-steps.png');
  expect(fileName(['x'.repeat(300)], 'csv')).toHaveLength(124);
});

describe('SVG', () => {
  test('text and attributes are escaped, and control characters left out', () => {
    expect(escaped('a<b> & "c"\u0000\u001b')).toBe('a&lt;b&gt; &amp; &quot;c&quot;');
    expect(tag('rect', { x: 1.23456, fill: 'a"b', rx: undefined })).toBe('<rect x="1.23" fill="a&quot;b"/>');
    expect(tag('text', {}, 'x')).toBe('<text>x</text>');
  });

  test('the drawing stands below title and lines', () => {
    const file = svgFile('A & B', ['run heat', 'now'], { width: 200.4, height: 100, body: '<path/>' }, { ground: '#fff', text: '#000' });
    expect(file).toMatch(/^<svg xmlns="http:\/\/www.w3.org\/2000\/svg" width="225" height="184"/);
    expect(file).toContain('A &amp; B');
    expect(file).toContain('<g transform="translate(12 72)"><path/></g>');
  });
});
