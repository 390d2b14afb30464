import { chmodSync, copyFileSync, existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DuctileError } from '../base/errors.ts';
import { PRIVATE_DIRECTORY, writeFileAtomic } from '../base/files.ts';
import { agentsText } from './agents-file.ts';
import { CONFIG_FILE } from './find.ts';
import { readConfig } from './load.ts';
import { lockFiles } from './lock.ts';
import { configInvalid } from './problem.ts';

export interface StarterOptions {
  readonly directory: string;
  /** The plugins that come with the program. */
  readonly shippedPlugins: string;
  readonly replace: boolean;
  /** Where the API listens, and the token that is made for it; without them it is off. */
  readonly api: StarterApi | undefined;
  readonly now: string;
}

export interface StarterApi {
  readonly listen: string;
  readonly token: string;
}

export interface Starter {
  readonly files: readonly string[];
  /** Undefined when there is one from before, or no API. */
  readonly token: string | undefined;
}

/** Writes a configuration that works at once, and locks it. */
export function writeStarter(options: StarterOptions): Starter {
  const { directory, shippedPlugins, replace, api, now } = options;
  const file = join(directory, CONFIG_FILE);
  if (existsSync(file) && !replace) {
    throw new DuctileError('CONFIG_EXISTS', `${file} is there already`, { place: file });
  }
  mkdirSync(join(directory, 'plugins'), { recursive: true, mode: PRIVATE_DIRECTORY });
  chmodSync(directory, PRIVATE_DIRECTORY);
  const { files: besides, token } = writeBesides(directory, api);
  if (existsSync(file)) copyFileSync(file, `${file}.bak`);
  writeFileAtomic(file, starterText(shippedPlugins, api?.listen));
  const { config, problems } = readConfig({ given: file });
  if (config === undefined) throw configInvalid(problems);
  return { files: [file, ...besides, lockFiles(directory, config.files, now)], token };
}

const TOKEN_NAME = 'DUCTILE_ADMIN_TOKEN';

/** What is there already stays: somebody may use that token, and may have written their own page. */
function writeBesides(directory: string, api: StarterApi | undefined): Starter {
  const files: string[] = [];
  const agents = join(directory, 'AGENTS.md');
  if (!existsSync(agents)) {
    writeFileAtomic(agents, agentsText);
    files.push(agents);
  }
  if (api === undefined) return { files, token: undefined };
  const env = join(directory, ENV_FILE);
  const before = existsSync(env) ? readFileSync(env, 'utf8') : '';
  if (new RegExp(`^${TOKEN_NAME}=`, 'm').test(before)) return { files, token: undefined };
  const lines = before === '' || before.endsWith('\n') ? before : `${before}\n`;
  writeFileAtomic(env, `${lines}${TOKEN_NAME}=${api.token}\n`);
  return { files: [env, ...files], token: api.token };
}

const ENV_FILE = '.env';

/** The API as it is written, or as it could be. */
function apiText(listen: string | undefined): string {
  const text = `environment_vars:
  include: [${ENV_FILE}]
api:
  enabled: true
  listen: ${JSON.stringify(listen ?? '127.0.0.1:8080')}
  auth:
    tokens:
      - name: admin
        token: \${${TOKEN_NAME}}
        scopes: ["*"]
`;
  return listen === undefined ? text.replaceAll(/^/gm, '# ').replace(/# $/, '') : text;
}

function starterText(shippedPlugins: string, listen: string | undefined): string {
  return `# The configuration of Ductile. Every key: ductile config show --effective
# After a change: ductile config check && ductile config lock && ductile system reload

service:
  name: ductile
  # Jobs that run at once (default: one less than the cores). Jobs that mostly wait for others,
  # such as HTTP requests, may be many more than the cores.
  max_workers: 4

state:
  # Everything that happened is in this file. For many hosts: url: postgres://…
  path: ./data/state.db

plugin_roots:
  # Those that come with Ductile.
  - ${JSON.stringify(shippedPlugins)}
  # Your own: a directory with a manifest.yaml and a program each.
  - ./plugins

plugins:
  # Try it: ductile plugin run echo --payload '{"hello": "you"}'
  echo:
    enabled: true
    # Its command poll, while the service runs: ductile schedule list
    schedules:
      - every: 5m
        jitter: 30s

# What follows what: the event of one plugin starts the next.
# routes:
#   - from: echo
#     event_type: echo.echoed
#     to: notify

# The HTTP API, for programs, agents (/mcp) and the dashboard (/ui). Tokens are kept out of this file.
${apiText(listen)}
# Other files, or directories of *.yaml files, that are merged into this one.
# include:
#   - conf.d
`;
}
