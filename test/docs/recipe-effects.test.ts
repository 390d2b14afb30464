/** Recipes by their effect, with the program itself: their commands are typed, and what arrives is checked. */
import { createHmac } from 'node:crypto';
import { existsSync } from 'node:fs';
import { chmod, mkdir, readFile, readdir, rm, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { claudeOutput, makeFakeAgent } from '../support/fake-agent.ts';
import { eventually } from '../support/instance.ts';
import { openRecipe, type Program } from '../support/program.ts';
import { startWebServer } from '../support/web-server.ts';

/** Types the commands of a page in their order, without those that don't end. */
async function typeAll({
  type,
  commands,
}: Pick<Program, 'type'> & { readonly commands: readonly string[] }): Promise<string> {
  const lines = commands.filter((line) => line !== 'ductile system start');
  const printed: string[] = [];
  for (const line of lines) {
    // A running service may still write the file at this point.
    const isFile = line.startsWith('cat ');
    const look = async (): Promise<string | false> => (await type(line).catch(() => '')) || false;
    printed.push(
      isFile ? await eventually(`${line} shows something`, look, 60_000) : await type(line),
    );
  }
  return printed.join('');
}

test('watch-a-folder.md notes a PDF that arrives, and nothing else', async () => {
  const recipe = await openRecipe('watch-a-folder.md');
  await mkdir(join(recipe.place, 'inbox'));
  const before = join(recipe.place, 'inbox/before.pdf');
  await writeFile(before, 'old');
  // A file that is younger than `min_age_ms` at the first poll counts as one that arrives.
  const anHourAgo = new Date(Date.now() - 3_600_000);
  await utimes(before, anHourAgo, anHourAgo);
  const printed = await typeAll(recipe);
  expect(printed).toContain('first.pdf arrived, 6 bytes');
  await writeFile(join(recipe.place, 'inbox/other.txt'), 'no');
  await recipe.type('sleep 2 && ductile plugin run folder-watch');
  expect(await recipe.messages('notes.jsonl', 1)).toEqual(['first.pdf arrived, 6 bytes']);
});

test('watch-a-folder.md posts to an address instead, as the page says', async () => {
  const chat = await startWebServer((_request, response) => response.end());
  const recipe = await openRecipe('watch-a-folder.md', [
    [/file: [^,]+/, `url: "${chat.url}/hook", allow_private: true`],
    ['recursive: true', 'recursive: true, emit_initial: true, min_age_ms: 0'],
  ]);
  await mkdir(join(recipe.place, 'inbox'));
  await writeFile(join(recipe.place, 'inbox/there.pdf'), 'old');
  await recipe.type('ductile plugin run folder-watch');
  expect(chat.received.map(({ method, path, body }) => [method, path, body])).toEqual([
    ['POST', '/hook', '{"text": "there.pdf arrived, 3 bytes"}'],
  ]);
});

test('watch-an-address.md notes each version of a page once', async () => {
  let body = '{"open": true}';
  const web = await startWebServer((_request, response) => response.end(body));
  const recipe = await openRecipe('watch-an-address.md', [
    ['https://example.com/status.json', `"${web.url}/status.json", allow_private: true`],
  ]);
  await typeAll(recipe);
  await recipe.type('ductile plugin run http-fetch');
  body = '{"open": false}';
  await recipe.type('ductile plugin run http-fetch');
  expect(await recipe.messages('notes.jsonl', 2)).toEqual([
    `${web.url}/status.json now says {"open": true}`,
    `${web.url}/status.json now says {"open": false}`,
  ]);
});

test('scheduled-command.md packs the folder, and reports a failure for good', async () => {
  const recipe = await openRecipe('scheduled-command.md', [
    ['backoff_base: 5m', 'backoff_base: 1ms'],
  ]);
  await mkdir(join(recipe.place, 'data'));
  await writeFile(join(recipe.place, 'data/precious'), 'x');
  const printed = await typeAll(recipe);
  expect(printed).toContain('2026-12-01T01:30:00');
  expect(printed).toContain('./precious');
  await rm(join(recipe.place, 'data'), { recursive: true });
  await expect(recipe.type('ductile plugin run backup --command run')).rejects.toThrow(
    'exited with',
  );
  expect(await recipe.messages('alerts.jsonl', 1)).toEqual([
    expect.stringMatching(/^backup failed for good: .*exited with \d/),
  ]);
});

test('deploy-on-push.md deploys what GitHub pushes to main, once, and again on request', async () => {
  const recipe = await openRecipe('deploy-on-push.md', [['127.0.0.1:8081', '127.0.0.1:0']]);
  const { place, type, commands } = recipe;
  await mkdir(join(place, 'app'));
  const program = `#!/bin/sh\necho "$1" >> '${place}/app/deployed'\n`;
  await writeFile(join(place, 'app/deploy'), program);
  await chmod(join(place, 'app/deploy'), 0o755);
  const [add = '', play = ''] = commands;
  const secret = /secret +(\S+)/.exec(await type(add))?.[1] ?? '';
  expect(await type(play)).toMatch(/status +succeeded/);
  const { addresses } = await recipe.start();
  const deployed = () => readFile(join(place, 'app/deployed'), 'utf8').catch(() => '');
  const push = async (branch: string, after: string, delivery: string): Promise<number> => {
    const body = JSON.stringify({ ref: `refs/heads/${branch}`, after });
    const signature = createHmac('sha256', secret).update(body).digest('hex');
    const response = await fetch(`http://${addresses.at(-1)}/hooks/github`, {
      method: 'POST',
      body,
      headers: {
        'content-type': 'application/json',
        'x-github-event': 'push',
        'x-github-delivery': delivery,
        'x-hub-signature-256': `sha256=${signature}`,
      },
    });
    return response.status;
  };
  expect(await push('topic', 'aaa', 'd1')).toBe(202);
  expect(await push('main', 'bbb', 'd2')).toBe(202);
  await eventually('it is deployed', async () => (await deployed()) === 'bbb\n');
  expect(await push('main', 'bbb', 'd2')).toBe(200);
  expect(await push('main', 'ccc', 'd3')).toBe(202);
  await eventually('the next is deployed', async () => (await deployed()) === 'bbb\nccc\n');
  const listed = await type('ductile webhook deliveries github --json');
  const { deliveries } = JSON.parse(listed) as { deliveries: { delivery_id: string }[] };
  const newest = deliveries.map(({ delivery_id: id }) => id)[0];
  await type(`ductile webhook replay ${newest}`);
  await eventually('it is deployed again', async () => (await deployed()) === 'bbb\nccc\nccc\n');
});

test('ask-before-acting.md waits for an approval, removes after a yes, and keeps after a no', async () => {
  const recipe = await openRecipe('ask-before-acting.md');
  const { place, type } = recipe;
  for (const folder of ['2019', '2020'])
    await mkdir(join(place, 'old', folder), { recursive: true });
  await recipe.start();
  await typeAll(recipe);
  expect(await recipe.messages('questions.jsonl', 1)).toEqual(['Remove 2019?']);
  const findWaiting = (): Promise<string> =>
    eventually('a run waits', async () => {
      const listed = await type('ductile run list --awaiting-approval --json');
      const { runs } = JSON.parse(listed) as { runs: { run_id: string }[] };
      return runs[0]?.run_id;
    });
  await type(`ductile run approve ${await findWaiting()} sure --why checked`);
  await eventually('it is removed', () => !existsSync(join(place, 'old/2019')));
  await type(`ductile pipeline run clean --payload '{"folder": "2020"}' --no-wait`);
  const second = await findWaiting();
  await type(`ductile run reject ${second} sure`);
  expect(await type(`ductile run show ${second}`)).toMatch(/status +halted/);
  expect(await readdir(join(place, 'old'))).toEqual(['2020']);
  expect(await recipe.messages('questions.jsonl', 2)).toEqual(['Remove 2019?', 'Remove 2020?']);
});

test('agent-task.md notes what the agent says, and why it failed', async () => {
  const claude = await makeFakeAgent('claude');
  const recipe = await openRecipe('agent-task.md', [
    [
      'provider: claude',
      `provider: claude, providers: { claude: { command: [${claude.program}] } }`,
    ],
    ['timeouts: { task: 30m }', 'timeouts: { task: 30m }\n    retry: { max_attempts: 1 }'],
  ]);
  await claude.behave({ stdout: claudeOutput('Nothing new.') });
  await recipe.type(`mkdir -p ${recipe.place}/tasks`);
  await recipe.start();
  expect(await typeAll(recipe)).toContain('briefing\\n\\nNothing new.');
  expect(existsSync(join(recipe.place, 'tasks/briefing/TASK.md'))).toBe(true);
  await claude.behave({ code: 3, stderr: 'no credit' });
  const again = recipe.commands.find((line) => line.includes('--command task')) ?? '';
  await expect(recipe.type(again)).rejects.toThrow('no credit');
  const [, failure] = await recipe.messages('answers.jsonl', 2);
  expect(failure).toMatch(/^Job \S+ \(agent task\) ended as failed: error:exit_3: no credit$/);
});
