import { compact } from '../base/json.ts';
import { join, resolve } from 'node:path';
import { readHomeDirectory } from '../base/account.ts';
import { isDryRun } from '../operation/request.ts';
import { callOperation, findCommand, type OperationInput } from './call-operation.ts';
import type { CliIo, CommonFlags, CliSession } from './host.ts';
import { printJson } from './print-json.ts';
import { showResult } from './show.ts';

interface InitOptions extends CommonFlags {
  readonly dir?: string;
  /** Address, or false for none. */
  readonly api?: string | false;
  readonly force?: boolean;
  readonly yes?: boolean;
  readonly dryRun?: boolean;
  readonly apply?: boolean;
}

const INIT = 'config.init';

/** Runs `config init`, and asks a person for the missing settings. */
export async function init(session: CliSession, options: InitOptions): Promise<void> {
  const { io } = session;
  const isDry = isDryRun(options.dryRun, options.apply);
  const isInteractive = io.isInTTY && io.isTTY && options.yes !== true && options.json !== true;
  const { dir, api } = isInteractive ? await askForSettings(io, options) : options;
  const input: OperationInput = {
    ...compact({ directory: dir === undefined ? undefined : resolve(io.cwd, dir), api }),
    ...(options.force === true ? { force: true } : {}),
    ...(isDry ? { dry_run: true } : {}),
  };
  const output = await callOperation(session, options, INIT, input);
  if (options.json === true) printJson(session, options, output);
  else showResult(findCommand(INIT), output, options, io);
}

/** Asks at most two questions; Enter accepts the value in brackets. */
async function askForSettings(io: CliIo, { dir, api }: InitOptions): Promise<InitOptions> {
  const lines = linesOf(io.stdin);
  const ask = async (text: string, defaultValue: string): Promise<string> => {
    io.stdout.write(`${text} [${defaultValue}] `);
    const { value } = await lines.next();
    const answer = typeof value === 'string' ? value.trim() : '';
    return answer === '' ? defaultValue : answer;
  };
  const home = join(readHomeDirectory(), '.config', 'ductile');
  const where = dir ?? (await ask('Where should the configuration be?', home));
  const wanted =
    api ??
    (await ask(
      'Where should the HTTP API listen, for agents and the dashboard? (or: no)',
      DEFAULT_ADDRESS,
    ));
  await lines.return(undefined);
  const isOff = wanted === false || /^(no|n|off|none)$/i.test(wanted);
  return { dir: where, api: isOff ? false : wanted };
}

const DEFAULT_ADDRESS = '127.0.0.1:8080';

async function* linesOf(input: CliIo['stdin']): AsyncGenerator<string, void> {
  let rest = '';
  for await (const chunk of input) {
    const parts = (rest + chunk.toString()).split('\n');
    rest = parts.pop() ?? '';
    yield* parts;
  }
  if (rest !== '') yield rest;
}
