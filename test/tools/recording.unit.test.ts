import { expect, test } from 'vitest';
import { formatRecording } from '../../tools/recording/recording.ts';

const lines = [
  { at: 0.5, text: '$ ductile job list | grep <id>', kind: 'command' },
  { at: 1, text: 'x'.repeat(120), kind: 'output' },
] as const;

test('a recording escapes its text and cuts lines at the edge of the terminal', () => {
  const svg = formatRecording('a & b', lines);
  expect(svg).toContain('<title>a &amp; b</title>');
  expect(svg).toContain('>$ ductile job list | grep &lt;id&gt;</text>');
  expect(svg).toContain(`>${'x'.repeat(99)}…</text>`);
});

test('a recording shows all lines to readers who prefer no motion', () => {
  const svg = formatRecording('recording', lines);
  const [before = '', after = ''] = svg.split('@media (prefers-reduced-motion: no-preference)');
  expect(before).not.toContain('animation');
  expect(after).toContain('.l1 { animation: k1 6.0s infinite; }');
});
