/** Two fake agents and a task folder, for the tests of the agent plugin. */
import { mkdir, realpath } from 'node:fs/promises';
import { join } from 'node:path';
import type { JsonObject } from '../../src/base/json.ts';
import { makeDirectory } from './directory.ts';
import { claudeOutput, codexOutput, makeFakeAgent, type FakeAgent } from './fake-agent.ts';
import type { RequestParts } from './plugin-process.ts';

export interface AgentFixture {
  readonly tasksDir: string;
  readonly claude: FakeAgent;
  readonly codex: FakeAgent;
  /** Configuration of the plugin for both agents. */
  readonly settings: JsonObject;
  /** Creates a request for a task in the folder `report`. */
  task(own?: JsonObject, settings?: JsonObject): RequestParts;
}

export async function makeAgentFixture(): Promise<AgentFixture> {
  const tasksDir = await realpath(await makeDirectory());
  await mkdir(join(tasksDir, 'report'));
  const claude = await makeFakeAgent('claude');
  const codex = await makeFakeAgent('codex');
  await claude.behave({ stdout: claudeOutput('All is well.') });
  await codex.behave({ stdout: codexOutput('All is well.') });
  const providers = { claude: { command: [claude.program] }, codex: { command: [codex.program] } };
  const settings = { tasks_dir: tasksDir, providers };
  return {
    tasksDir,
    claude,
    codex,
    settings,
    task(own = {}, config = settings) {
      const payload = { prompt: 'Look after it.', task_folder: 'report', ...own };
      return { command: 'task', config, payload };
    },
  };
}
