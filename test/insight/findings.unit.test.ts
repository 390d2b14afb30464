/** Findings in files, as `doctor` and `config check` show them. */
import { expect, test } from 'vitest';
import { toFinding } from '../../src/config/findings.ts';
import { makeProblem } from '../../src/config/problem.ts';
import { parseFixCommands, showFindings } from '../../src/insight/findings.service.ts';

test('a finding in a file has its location as evidence and the commands that its fix names', () => {
  const fix = 'Compare with `ductile config diff`, then accept it with `ductile config lock`.';
  const problem = makeProblem('/c/config.yaml', '', 'the file changed after it was locked', fix);
  expect(showFindings([toFinding('warning', 'integrity', problem)]).findings).toMatchObject([
    {
      id: 'integrity:/c/config.yaml',
      evidence: '/c/config.yaml',
      commands: ['ductile config lock', 'ductile config diff'],
    },
  ]);
});

test('a finding about a key is identified by the key', () => {
  const problem = makeProblem('/c/config.yaml:3:1', 'service.max_worker', 'is not a known key');
  expect(showFindings([toFinding('error', 'content', problem)]).findings).toMatchObject([
    { id: 'content:service.max_worker', evidence: '/c/config.yaml:3:1' },
  ]);
});

test.each([
  ['Run: chmod +x /p/run', ['chmod +x /p/run']],
  ['Run `chmod go= /c/config.yaml`.', ['chmod go= /c/config.yaml']],
  ['Put a value there with `ductile credential set <name>`.', []],
  ['Set `service.max_workers` to more than 1.', []],
])('the commands in "%s" are %j', (fix, commands) => {
  expect(parseFixCommands(fix)).toEqual(commands);
});
