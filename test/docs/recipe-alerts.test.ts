/** Alerts by their effect, with the program itself: what arrives, and whether it can be acted on. */
import { readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import { eventually } from '../support/instance.ts';
import { blocksIn, openExample, openRecipe, type Edit, type Program } from '../support/program.ts';
import { startWebServer } from '../support/web-server.ts';

/** The command that an alert names. */
function nextIn(message: string): string {
  return /Next: (ductile .+)$/.exec(message)?.[1] ?? '';
}

async function findAlert(
  { messages }: Pick<Program, 'messages'>,
  file: string,
  pattern: RegExp,
): Promise<string> {
  for (let count = 1; count < 9; count += 1) {
    const found = (await messages(file, count)).find((message) => pattern.test(message));
    if (found !== undefined) return found;
  }
  throw new Error(`no message is like ${pattern}`);
}

describe('examples/on-call', () => {
  const page = resolve(import.meta.dirname, '../../examples/on-call/README.md');

  test('alerts to a halted run and a waiting approval, and says when they are resolved', async () => {
    const program = await openExample('on-call');
    const { place, type, start } = program;
    const [first = '', trouble = ''] = blocksIn(await readFile(page, 'utf8'), 'sh');
    const prepare = first.split('\n').filter((line) => !/^(export|.*system start)/.test(line));
    const typed = (lines: string): string => lines.replaceAll('./ductile', 'ductile');
    await type(typed(prepare.join('\n')));
    await start();
    await type(typed(trouble));
    const file = 'ductile-on-call/alerts.jsonl';
    const halted = await findAlert(program, file, /^A run of the pipeline deploy halted at \S+\./);
    expect(nextIn(halted)).toMatch(/^ductile run revive \S+$/);
    await type(`echo 1.0 > ${place}/ductile-on-call/release`);
    await type(nextIn(halted));
    const waiting = await findAlert(program, file, /^An approval of the pipeline clean waits/);
    expect(nextIn(waiting)).toMatch(/^ductile run approve \S+ sure$/);
    await type(nextIn(waiting));
    await findAlert(program, file, /^Resolved: A run of the pipeline deploy halted at \S+\./);
    await findAlert(program, file, /^Resolved: An approval of the pipeline clean waits/);
    await eventually('it is deployed', async () => {
      const deployed = await readFile(join(place, 'ductile-on-call/deployed'), 'utf8').catch(
        () => '',
      );
      return deployed === '1.0\n';
    });
  });
});

describe('docs/recipes/be-told-of-failures.md', () => {
  test('posts alerts to an address, also one for an approval that waits', async () => {
    const chat = await startWebServer((_request, response) => response.end());
    const url = `url: "${chat.url}/hook", allow_private: true`;
    const { type, start } = await openRecipe('be-told-of-failures.md', [
      [/file: [^,]+/, url],
      ['state:', 'pipelines: [{ name: clean, steps: [{ approve: "Delete it?" }] }]\nstate:'],
    ]);
    await start();
    await type('ductile pipeline run clean --no-wait');
    const text = await eventually('the alert came', () => {
      const [alert] = chat.received.filter(({ path }) => path === '/hook');
      return alert === undefined ? undefined : (JSON.parse(alert.body) as { text: string }).text;
    });
    expect(text).toMatch(/approval.* Next: ductile run approve /);
  });

  test('warns about a placeholder that the signal does not have', async () => {
    const edits: Edit[] = [['{{error}}', '{{detail.message}}']];
    const { type } = await openRecipe('be-told-of-failures.md', edits);
    expect(await type('ductile config check')).toMatch(
      /warning .*routes\[2\].* job\.dead to failed-jobs, and that event has no detail/,
    );
  });
});

test('docs/guides/runs.md notes a question, and the command that answers it works', async () => {
  const page = resolve(import.meta.dirname, '../../docs/guides/runs.md');
  const routes = blocksIn(await readFile(page, 'utf8'), 'yaml').find((block) =>
    block.includes('run.awaiting_approval'),
  );
  const { type, start, messages } = await openExample('on-call', [
    [/routes:\n(?: .*\n)+/, routes ?? ''],
    [/approve: '.*?', /, 'approve: {}, '],
    ['  alert:\n', '  notify:\n'],
    ['    uses: notify\n', ''],
  ]);
  await type('mkdir -p ~/ductile-on-call');
  await start();
  await type('ductile pipeline run clean --no-wait');
  const [question = ''] = await messages('ductile-on-call/alerts.jsonl', 1);
  expect(question).toMatch(/^A run of the pipeline clean waits for an approval at sure\. Next: /);
  expect(await type(nextIn(question))).toContain('approved');
});
