/**
 * Unusual command lines: each gets an exit code of the catalogue, one readable error, and no stack
 * trace.
 */
import assert from 'node:assert/strict';
import { catalogue } from '../../src/base/error-catalogue.ts';
import { DuctileError } from '../../src/base/errors.ts';
import { commands } from '../../src/cli/commands.ts';
import { run } from '../support/fake-cli.ts';
import type { Target } from './support/fuzz.ts';
import { fuzzing } from './support/fuzzing.ts';

const exitCodes = new Set(Object.values(catalogue).map(({ exit }) => exit));

/** Commands that would write files or call a remote service are left out. */
const isOutside = /^(init|skills|demo|--url.*|-.*-file.*|.*[/~].*|\.\..*)$/;

const flags = new Set(
  commands.flatMap(({ fields }) => fields.map(({ field }) => `--${field.replaceAll('_', '-')}`)),
);

const argv: Target = {
  name: 'argv',
  examples: [
    ...commands.map(({ noun, action }) => `${noun}\n${action}`),
    'job\nlist\n--limit\n5\n--plugin\necho',
    'plugin\nrun\necho\n--payload\n{"a":1}\n--json',
    'signal\nemit\na.b\n--data\n{"a":[1,2]}\n--dry-run',
    'config\nset\nservice.max_workers\n4\n--dry-run',
    '--config\nx\nsystem\nstatus\n--verbose',
    'job\nget\n--help',
  ],
  words: [
    '\n',
    '\n--json',
    '\n--dry-run',
    '\n--help',
    '\n--',
    '\n-',
    '\n--limit\n-1',
    '\n--payload\n',

    '=',
    '\n--no-wait',
    '{"a":1,"a":2}',
    '{"__proto__":1}',
    '\n--token\nt',
    '1e309',
    '\n-v',
    ',',
    ...[...flags].map((flag) => `\n${flag}\n`),
    ...commands.map(({ noun }) => noun),
  ],
  async check(input) {
    const words = input.split('\n');
    if (words.some((word) => isOutside.test(word))) return 'outside';
    const answer = new DuctileError('JOB_NOT_FOUND', 'there is no such job');
    const io = { interruption: () => AbortSignal.abort() };
    const { code, out, err } = await run(words, { answer, io });
    assert.ok(code === 0 || exitCodes.has(code), `exit code ${code}`);
    if (code !== 0) assert.notEqual(err + out, '', 'it fails without a word');
    assert.doesNotMatch(err, /INTERNAL|^\s+at .*:\d+:\d+/m);
    // eslint-disable-next-line no-control-regex -- a terminal obeys what it is shown
    assert.doesNotMatch(err, /[\u0000-\u0008\u000b-\u001f\u007f\u009b]/);
    return `${code} ${err}`;
  },
};

fuzzing('fuzz-cli', { cases: 1500 }, [argv]);
