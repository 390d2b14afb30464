/** Runs a new session in a task folder. */
import type { Answer, Request } from '../../sdk/typescript/ductile-plugin.ts';
import { askAgent, summarize } from './ask.ts';
import { findTaskFolder, MEMORY_REMINDER } from './folder.ts';
import { AgentFailure } from './outcome.ts';
import { choose, readSettings, said } from './settings.ts';

export async function task(request: Request): Promise<Answer> {
  const settings = readSettings(request);
  const { payload } = request;
  const name = said(payload, 'task_folder');
  if (name === undefined) throw new AgentFailure('no_task_folder', '');
  const prompt = payload.text('prompt');
  if (prompt === undefined) throw payload.refuse('prompt', 'must be set');
  const cwd = await findTaskFolder(settings.tasksDir, name);
  const choice = choose(payload, settings);
  const question = { choice, prompt: `${prompt}${MEMORY_REMINDER}`, cwd };
  const told = await askAgent(
    { ...question, session: undefined, isKept: false },
    settings,
    request,
  );
  const result = {
    status: 'success',
    text: told.text,
    title: said(payload, 'title') ?? null,
    hook_id: said(payload, 'hook_id') ?? null,
    task_folder: name,
    ...told.details,
  };
  return { result: summarize(told), events: [{ type: 'agent.result', payload: result }] };
}
