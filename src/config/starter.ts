import { chmodSync, copyFileSync, existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { DuctileError } from '../base/errors.ts';
import { PRIVATE_DIRECTORY, writeFileAtomic } from '../base/files.ts';
import { CONFIG_FILE } from './find.ts';
import { readConfig } from './load.ts';
import { lockFiles } from './lock.ts';
import { configInvalid } from './problem.ts';

export interface StarterOptions {
  readonly directory: string;
  /** The plugins that come with the program. */
  readonly shippedPlugins: string;
  readonly replace: boolean;
  readonly now: string;
}

/** Writes a configuration that works at once, and locks it. */
export function writeStarter({
  directory,
  shippedPlugins,
  replace,
  now,
}: StarterOptions): string[] {
  const file = join(directory, CONFIG_FILE);
  if (existsSync(file) && !replace) {
    throw new DuctileError('CONFIG_EXISTS', `${file} is there already`, { place: file });
  }
  mkdirSync(join(directory, 'plugins'), { recursive: true, mode: PRIVATE_DIRECTORY });
  chmodSync(directory, PRIVATE_DIRECTORY);
  if (existsSync(file)) copyFileSync(file, `${file}.bak`);
  writeFileAtomic(file, starterText(shippedPlugins));
  const { config, problems } = readConfig({ given: file });
  if (config === undefined) throw configInvalid(problems);
  return [file, lockFiles(directory, config.files, now)];
}

export function starterText(shippedPlugins: string): string {
  return `# The configuration of Ductile. Every key: ductile config show --effective
# After a change: ductile config check && ductile config lock && ductile system reload

service:
  name: ductile
  # Jobs that run at once; one less than the cores unless set.
  # max_workers: 4

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
    # schedules:
    #   - every: 5m
    #     jitter: 30s

# What follows what: the event of one plugin starts the next.
# routes:
#   - from: echo
#     event_type: echo.echoed
#     to: notify

# The HTTP API. Keep tokens out of this file: set DUCTILE_ADMIN_TOKEN, or name a file with it.
# environment_vars:
#   include: [.env]
# api:
#   enabled: true
#   listen: 127.0.0.1:8080
#   auth:
#     tokens:
#       - name: admin
#         token: \${DUCTILE_ADMIN_TOKEN}
#         scopes: ["*"]

# Other files, or directories of *.yaml files, that are merged into this one.
# include:
#   - conf.d
`;
}
