#!/usr/bin/env node
/** Runs agents by their command lines: for a task, in a conversation, or as a heartbeat. */
import { accessSync, constants, statSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import {
  ConfigError,
  runPlugin,
  type Answer,
  type Request,
} from '../../sdk/typescript/ductile-plugin.ts';
import { sweep } from './access.ts';
import { scaffold } from './folder.ts';
import { heartbeat } from './heartbeat.ts';
import { AgentFailure, withWords } from './outcome.ts';
import { readSettings } from './settings.ts';
import { task } from './task.ts';
import { turn } from './turn.ts';

const PROMPT_SHOWN =
  '{prompt} in its command shows prompts to every user of this machine; use {prompt_file}';

await runPlugin({
  task: withWords(task),
  turn: withWords(turn),
  heartbeat: withWords(heartbeat),
  scaffold: withWords(makeFolder),
  health,
});

async function makeFolder(request: Request): Promise<Answer> {
  const { tasksDir } = readSettings(request);
  const name = request.payload.text('task_folder');
  if (name === undefined) throw new AgentFailure('no_task_folder', '');
  const description = request.payload.text('description') ?? 'Say here what this task is.';
  return { result: `made ${await scaffold(tasksDir, name, description)}` };
}

async function health(request: Request): Promise<Answer> {
  const { tasksDir, usual, permissionMode } = readSettings(request);
  if (statSync(tasksDir, { throwIfNoEntry: false })?.isDirectory() !== true) {
    throw new ConfigError(`config.tasks_dir ${tasksDir} is not a folder`);
  }
  const [program = ''] = usual.provider.command;
  if (!isProgram(program)) {
    throw new ConfigError(
      `error:cli_not_found_${usual.provider.name}: '${program}' is not in PATH`,
    );
  }
  await sweep();
  const { name, command, resume = [] } = usual.provider;
  const isShown = [...command, ...resume].some((part) => part.includes('{prompt}'));
  const warning = isShown ? `; ${PROMPT_SHOWN}` : '';
  return { result: `${name} can be run, permission mode ${permissionMode}${warning}` };
}

function isProgram(program: string): boolean {
  const folders = program.includes('/') ? [''] : (process.env['PATH'] ?? '').split(delimiter);
  return folders.some((folder) => {
    try {
      accessSync(join(folder, program), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}
