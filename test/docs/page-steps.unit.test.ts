/** How the test of a documentation page reads the page. */
import { expect, test } from 'vitest';
import { parseConsole, parseSteps } from '../support/page-steps.ts';

test('commands, files, services and hidden parts are steps, in their order', () => {
  const page = `# A page

<!-- hidden: sh
mkdir inbox
-->

<!-- hidden-file: ~/a.txt
one
-->

\`\`\`sh
ductile init
\`\`\`

<!-- file: ~/config.yaml -->

\`\`\`yaml
plugins: {}
\`\`\`

<!-- append: notes.txt -->

\`\`\`text
more
\`\`\`

<!-- start -->

\`\`\`sh
ductile system start
\`\`\`

- in a list:

  \`\`\`console
  $ ductile version
  ductile 0.1.0
  \`\`\`
`;
  expect(parseSteps(page)).toEqual([
    { kind: 'commands', text: 'mkdir inbox\n', line: 4 },
    { kind: 'file', path: '~/a.txt', appends: false, text: 'one\n', line: 8 },
    { kind: 'commands', text: 'ductile init\n', line: 12 },
    { kind: 'file', path: '~/config.yaml', appends: false, text: 'plugins: {}\n', line: 18 },
    { kind: 'file', path: 'notes.txt', appends: true, text: 'more\n', line: 24 },
    { kind: 'service', text: 'ductile system start\n', line: 30 },
    {
      kind: 'console',
      entries: [{ command: 'ductile version', output: 'ductile 0.1.0\n' }],
      line: 36,
    },
  ]);
});

test('a block is skipped only with a reason', () => {
  const block = '\n\n```sh\nsystemctl start ductile\n```\n';
  expect(parseSteps(`<!-- skip: needs systemd -->${block}`)).toEqual([]);
  expect(() => parseSteps(`<!-- skip -->${block}`)).toThrow('say why');
});

test('a command that would change the machine is refused', () => {
  const refused = ['sudo ls', 'useradd ductile', 'cp a /etc/ductile/', 'npm install -g ductile'];
  for (const command of refused) {
    expect(() => parseSteps(`\`\`\`sh\n${command}\n\`\`\`\n`)).toThrow('reaches beyond the test');
    expect(parseSteps(`<!-- skip: needs root -->\n\n\`\`\`sh\n${command}\n\`\`\`\n`)).toEqual([]);
  }
});

test('blocks in other languages are not steps', () => {
  expect(parseSteps('```yaml\nplugins: {}\n```\n\n```mermaid\nflowchart\n```\n')).toEqual([]);
});

test('a comment without its block and a block without an end are errors', () => {
  expect(() => parseSteps('<!-- file: a.txt -->\n\nText.\n')).toThrow('no block follows');
  expect(() => parseSteps('```sh\nls\n')).toThrow('has no end');
  expect(() => parseSteps('<!-- hidden: sh\nls\n')).toThrow('has no end');
});

test('a console block has commands with their output', () => {
  expect(parseConsole('$ ls\na\nb\n$ cat a \\\n> b\n')).toEqual([
    { command: 'ls', output: 'a\nb\n' },
    { command: 'cat a \\\nb', output: '' },
  ]);
  expect(() => parseConsole('a\n')).toThrow('begins with');
});
