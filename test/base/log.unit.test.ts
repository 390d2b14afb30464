import { stripVTControlCharacters } from 'node:util';
import { describe, expect, test } from 'vitest';
import { DuctileError } from '../../src/base/errors.ts';
import { chooseLogFormat, makeLogger, type LogFormat } from '../../src/base/log.ts';
import type { LogLevel } from '../../src/base/log-ring.ts';
import { toVisibleText } from '../../src/base/text.ts';

function capture(format: LogFormat, level: LogLevel = 'debug') {
  const lines: string[] = [];
  const log = makeLogger({ level, format, destination: { write: (line) => lines.push(line) } });
  return { lines, log };
}

function captureOne(format: LogFormat, message: string, fields: Record<string, unknown>): string {
  const { lines, log } = capture(format);
  log.warn(message, fields);
  expect(lines).toHaveLength(1);
  return stripVTControlCharacters(lines.join(''));
}

const hostile = [
  'done\n{"level":"error","message":"forged"}',
  'a\r\nb\tc',
  '\u001b[2J\u001b]0;title\u0007',
  '\u009b31m',
  'line\u2028separator\u2029',
  '\u202egnp.exe',
  '" quoted=" level=error',
  '\u0000',
];

describe('JSON', () => {
  test('has the fields of the specification, and the time as it is stored', () => {
    const { lines, log } = capture('json');
    log.child('dispatcher').info('job started', { plugin: 'mail', job_id: 'j1', attempt: 2 });
    expect(JSON.parse(lines.join(''))).toEqual({
      timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      level: 'info',
      component: 'dispatcher',
      plugin: 'mail',
      job_id: 'j1',
      attempt: 2,
      message: 'job started',
    });
  });

  test.each(hostile)('keeps %j on one line, in its field', (text) => {
    const line = captureOne('json', text, { stderr: text });
    expect(line.trimEnd()).toBe(toVisibleText(line.trimEnd()));
    expect(JSON.parse(line)).toMatchObject({ level: 'warn', message: text, stderr: text });
  });

  test('does not let a field stand for one of its own', () => {
    const line = captureOne('json', 'm', { level: 'error', message: 'x', component: 'y' });
    expect(line.match(/"(level|message|component)":/g)).toHaveLength(3);
    expect(JSON.parse(line)).toMatchObject({
      level: 'warn',
      component: 'ductile',
      level_: 'error',
    });
  });

  test('does not fill in placeholders from what plugins say', () => {
    expect(JSON.parse(captureOne('json', '100%s %j', { a: 1 }))).toMatchObject({
      message: '100%s %j',
    });
  });

  test('has an error with its code or its stack, and leaves out what is undefined', () => {
    const error = new DuctileError('JOB_NOT_FOUND', 'no such job');
    const line = captureOne('json', 'm', { error, cause: new Error('why'), plugin: undefined });
    const logged = JSON.parse(line) as Record<string, unknown>;
    expect(logged).toMatchObject({ error: { code: 'JOB_NOT_FOUND', error: 'no such job' } });
    expect(logged['cause']).toContain('Error: why');
    expect(logged).not.toHaveProperty('plugin');
  });
});

describe('text', () => {
  test('is time, level, component, message and fields', () => {
    expect(
      captureOne('text', 'job started', { plugin: 'mail', count: 3, note: 'two words' }),
    ).toMatch(
      /^\d\d:\d\d:\d\d\.\d{3} WARN {2}ductile {2}job started plugin=mail count=3 note="two words"\n$/,
    );
  });

  test.each(hostile)('keeps %j on one line and visible', (text) => {
    const { lines, log } = capture('text');
    log.child(text).error(text, { [text]: text, nested: { text } });
    const line = lines.join('');
    expect(lines).toHaveLength(1);
    // The only line break is the last character, and the text can't set a color.
    expect(line.indexOf('\n')).toBe(line.length - 1);
    expect(stripVTControlCharacters(line).trimEnd()).toBe(
      toVisibleText(stripVTControlCharacters(line).trimEnd()),
    );
  });

  test('a value cannot pass for another field', () => {
    const line = captureOne('text', 'm', { stderr: 'x level=error plugin=forged' });
    expect(line).toContain('stderr="x level=error plugin=forged"');
  });

  test('takes values that have no JSON', () => {
    const ring: Record<string, unknown> = { big: 1n };
    ring['self'] = ring;
    expect(captureOne('text', 'm', { ring })).toContain('big: 1n');
  });
});

test('levels below the chosen one are silent', () => {
  const { lines, log } = capture('json', 'warn');
  log.debug('no');
  log.info('no');
  log.warn('yes');
  log.child('part').info('no');
  log.error('yes');
  expect(lines.map((line) => (JSON.parse(line) as { level: string }).level)).toEqual([
    'warn',
    'error',
  ]);
});

test('a terminal gets text, anything else JSON', () => {
  expect(chooseLogFormat({ isTTY: true })).toBe('text');
  expect(chooseLogFormat({ isTTY: false })).toBe('json');
  expect(chooseLogFormat({})).toBe('json');
});
