/** Runs a new session in a task folder. */
import type { Answer, Request } from '../../sdk/typescript/ductile-plugin.ts';
import { askAgent, summarize } from './ask.ts';
import { findTaskFolder, MEMORY_REMINDER } from './folder.ts';
import { AgentFailure } from './outcome.ts';
import { choose, readSettings, readText } from './settings.ts';

export async function task(request: Request): Promise<Answer> {
  const settings = readSettings(request);
  const { payload } = request;
  const name = readText(payload, 'task_folder');
  if (name === undefined) throw new AgentFailure('no_task_folder', '');
  const prompt = payload.text('prompt');
  if (prompt === undefined) throw payload.refuse('prompt', 'must be set');
  const cwd = await findTaskFolder(settings.tasksDir, name);
  const choice = choose(payload, settings);
  const question = { choice, prompt: `${prompt}${MEMORY_REMINDER}`, cwd };
  const reply = await askAgent(
    { ...question, session: undefined, isKept: false },
    settings,
    request,
  );
  const result = {
    status: 'success',
    text: reply.text,
    title: readText(payload, 'title') ?? null,
    hook_id: readText(payload, 'hook_id') ?? null,
    task_folder: name,
    ...reply.details,
  };
  return { result: summarize(reply), events: [{ type: 'agent.result', payload: result }] };
}
