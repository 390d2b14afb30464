/** What recipes promise beyond the commands that they show, with the program itself. */
import { createHmac } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readFile, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { makeFakeAgent } from '../support/fake-agent.ts';
import { eventually } from '../support/instance.ts';
import { openRecipe } from '../support/program.ts';
import { startWebServer } from '../support/web-server.ts';

test('watch-a-folder.md posts to an address instead, as the page says', async () => {
  const chat = await startWebServer((_request, response) => response.end());
  const recipe = await openRecipe('watch-a-folder.md', [
    [/file: [^,]+/, `url: "${chat.url}/hook", allow_private: true`],
    ['recursive: true', 'recursive: true, emit_initial: true, min_age_ms: 0'],
  ]);
  await mkdir(join(recipe.place, 'inbox'));
  await writeFile(join(recipe.place, 'inbox/there.pdf'), 'old');
  await recipe.type('ductile plugin run inbox');
  expect(chat.received.map(({ method, path, body }) => [method, path, body])).toEqual([
    ['POST', '/hook', '{"text": "there.pdf arrived, 3 bytes"}'],
  ]);
});

test('scheduled-command.md reports a command that keeps failing, once', async () => {
  const recipe = await openRecipe('scheduled-command.md', [
    ['backoff_base: 5m', 'backoff_base: 1ms'],
  ]);
  await expect(recipe.type('ductile plugin run backup --command run')).rejects.toThrow(
    'exited with',
  );
  expect(await recipe.messages('alerts.jsonl', 1)).toEqual([
    expect.stringMatching(/^backup failed for good: .*exited with \d/),
  ]);
});

test('deploy-on-push.md deploys what GitHub pushes to main, once, and again on request', async () => {
  const recipe = await openRecipe('deploy-on-push.md', [['127.0.0.1:8081', '127.0.0.1:0']]);
  const { place, type } = recipe;
  const created = await type(
    'ductile webhook create github --title GitHub --signal github.push --auth-mode github',
  );
  const secret = /secret +(\S+)/.exec(created)?.[1] ?? '';
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
  await eventually('it is deployed', async () => (await deployed()) === 'deployed bbb\n');
  expect(await push('main', 'bbb', 'd2')).toBe(200);
  expect(await push('main', 'ccc', 'd3')).toBe(202);
  const both = 'deployed bbb\ndeployed ccc\n';
  await eventually('the next is deployed', async () => (await deployed()) === both);
  const listed = await type('ductile webhook deliveries github --json');
  const { deliveries } = JSON.parse(listed) as { deliveries: { delivery_id: string }[] };
  const newest = deliveries.map(({ delivery_id: id }) => id)[0];
  await type(`ductile webhook replay ${newest}`);
  await eventually(
    'it is deployed again',
    async () => (await deployed()) === `${both}deployed ccc\n`,
  );
});

test('ask-before-acting.md keeps the folder after a no', async () => {
  const recipe = await openRecipe('ask-before-acting.md');
  const { place, type } = recipe;
  await mkdir(join(place, 'old/2020'), { recursive: true });
  await recipe.start();
  await type(`ductile pipeline run clean --payload '{"folder": "2020"}' --no-wait`);
  const waiting = await eventually('a run waits', async () => {
    const listed = await type('ductile run list --awaiting-approval --json');
    const { runs } = JSON.parse(listed) as { runs: { run_id: string }[] };
    return runs[0]?.run_id;
  });
  await type(`ductile run reject ${waiting} sure`);
  expect(await type(`ductile run show ${waiting}`)).toMatch(/status +halted/);
  expect(await readdir(join(place, 'old'))).toEqual(['2020']);
});

test('agent-task.md notes why the agent failed', async () => {
  const claude = await makeFakeAgent('claude');
  const recipe = await openRecipe('agent-task.md', [
    [
      'provider: claude',
      `provider: claude, providers: { claude: { command: [${claude.program}] } }`,
    ],
    ['timeouts: { task: 30m }', 'timeouts: { task: 30m }\n    retry: { max_attempts: 1 }'],
  ]);
  await mkdir(join(recipe.place, 'tasks'));
  await recipe.type(recipe.commands.find((line) => line.includes('scaffold')) ?? '');
  expect(existsSync(join(recipe.place, 'tasks/briefing/TASK.md'))).toBe(true);
  await claude.behave({ code: 3, stderr: 'no credit' });
  const task = recipe.commands.find((line) => line.includes('--command task')) ?? '';
  await expect(recipe.type(task)).rejects.toThrow('no credit');
  const [failure] = await recipe.messages('answers.jsonl', 1);
  expect(failure).toMatch(/^Job \S+ \(briefing task\) ended as failed: error:exit_3: no credit$/);
});
