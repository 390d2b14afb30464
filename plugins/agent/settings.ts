/** Settings of the operator, and their use in one run. */
import { isAbsolute } from 'node:path';
import type { Fields, Json, Request } from '../../sdk/typescript/ductile-plugin.ts';
import { readParameters, type ParameterRules } from './parameters.ts';
import { readProviders, type Provider } from './providers.ts';

export const PERMISSION_MODES = [
  'default',
  'plan',
  'dontAsk',
  'acceptEdits',
  'bypassPermissions',
] as const;
export type PermissionMode = (typeof PERMISSION_MODES)[number];

export interface Settings {
  /** Provider, model and effort, if the payload names none. */
  readonly usual: Choice;
  readonly providers: ReadonlyMap<string, Provider>;
  readonly permissionMode: PermissionMode;
  readonly tasksDir: string;
  /** Variables of the agent's environment, besides the few that every program needs. */
  readonly env: Readonly<Record<string, string>>;
  readonly parameterRules: ParameterRules;
  readonly heartbeat: {
    readonly prompt: string;
    readonly ackToken: string;
    readonly cooldownMs: number;
  };
}

export interface Choice {
  readonly provider: Provider;
  readonly model: string | undefined;
  readonly effort: string | undefined;
  readonly parameters: readonly string[];
}

// Must not start with a dash, like an option, and must not be TOML, which codex would parse.
const MODEL = /^[A-Za-z0-9][\w.:/@[\]-]{0,127}$/;
const EFFORT = /^[A-Za-z][A-Za-z0-9_-]{0,31}$/;
const HEARTBEAT_PROMPT =
  'This is a regular check. If there is something useful to tell me now, tell it. ' +
  'Otherwise answer with {ack_token} alone.';

export function readSettings({ config }: Request): Settings {
  const providers = readProviders(config);
  const provider = providers.get(config.text('provider') ?? 'claude');
  if (provider === undefined) throw config.refuse('provider', known(providers));
  const ackToken = config.text('ack_token') ?? 'HEARTBEAT_OK';
  const prompt = config.text('heartbeat_prompt') ?? HEARTBEAT_PROMPT;
  checkAllowedUsers(config);
  return {
    usual: { provider, ...readModel(config), parameters: [] },
    providers,
    permissionMode: readPermissionMode(config),
    tasksDir: readTasksDir(config),
    env: readEnvironment(config),
    parameterRules: readParameterRules(config),
    heartbeat: {
      prompt,
      ackToken,
      cooldownMs: config.whole('heartbeat_cooldown_s', 300, 0, 86_400) * 1000,
    },
  };
}

/** Reads the choice of a payload. The default model and effort apply only to the default provider. */
export function choose(payload: Fields, settings: Settings): Choice {
  const { usual, providers } = settings;
  const provider = providers.get(readText(payload, 'provider') ?? usual.provider.name);
  if (provider === undefined) throw payload.refuse('provider', known(providers));
  const isUsual = provider === usual.provider;
  const own = readModel(payload);
  return {
    provider,
    model: own.model ?? (isUsual ? usual.model : undefined),
    effort: own.effort ?? (isUsual ? usual.effort : undefined),
    parameters: readParameters(payload, provider, settings.parameterRules),
  };
}

/** Reads a text; an empty one counts as missing, as forms and templates produce it. */
export function readText(payload: Fields, key: string): string | undefined {
  return payload.get(key) === '' ? undefined : payload.text(key);
}

function known(providers: ReadonlyMap<string, Provider>): string {
  return `must be one of ${[...providers.keys()].join(', ')}`;
}

/** Checks the users of wake webhooks, so that a mistake is found before a delivery. */
function checkAllowedUsers(config: Fields): void {
  const users = config.get('allowed_users') ?? [];
  const isUser = (user: Json): boolean =>
    Number.isSafeInteger(user) || (typeof user === 'string' && user.trim() !== '');
  if (Array.isArray(users) && users.every(isUser)) return;
  throw config.refuse('allowed_users', 'must be a list of names or numbers');
}

function readModel(fields: Fields): Pick<Choice, 'model' | 'effort'> {
  const model = readText(fields, 'model');
  if (model !== undefined && !MODEL.test(model)) throw fields.refuse('model', 'must be a name');
  const effort = readText(fields, 'reasoning_effort');
  if (effort !== undefined && !EFFORT.test(effort)) {
    throw fields.refuse('reasoning_effort', 'must be one word, such as high');
  }
  return { model, effort };
}

function readPermissionMode(config: Fields): PermissionMode {
  const written = config.text('permission_mode') ?? 'default';
  const mode = PERMISSION_MODES.find((name) => name === written);
  if (mode !== undefined) return mode;
  throw config.refuse('permission_mode', `must be one of ${PERMISSION_MODES.join(', ')}`);
}

function readTasksDir(config: Fields): string {
  const path = config.text('tasks_dir');
  if (path !== undefined && isAbsolute(path)) return path;
  throw config.refuse('tasks_dir', 'must be an absolute path');
}

function readEnvironment(config: Fields): Record<string, string> {
  const env: Record<string, string> = {};
  for (const [name, value] of Object.entries(config.mapping('env'))) {
    if (!/^[A-Za-z_]\w*$/.test(name) || name.startsWith('DUCTILE_')) {
      throw config.refuse('env', `cannot have a variable named '${name}'`);
    }
    if (typeof value !== 'string' || value.includes('\0')) {
      throw config.refuse('env', `must give ${name} a string`);
    }
    env[name] = value;
  }
  return env;
}

function readParameterRules(config: Fields): ParameterRules {
  const names = config.texts('payload_parameters');
  const wrong = names.find((name) => !/^--?[A-Za-z][\w-]*$/.test(name));
  if (wrong === undefined) return { alsoAllowed: names };
  throw config.refuse('payload_parameters', `must list names of options; '${wrong}' is none`);
}
