import { existsSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { createPluginEnvironment } from '../../src/app/blueprint.ts';
import { findInstallPaths } from '../../src/app/install-paths.ts';
import { DuctileError } from '../../src/base/errors.ts';
import type { JsonObject } from '../../src/base/json.ts';
import { quoteShell } from '../../src/base/text.ts';
import type { Config } from '../../src/config/config.ts';
import { readConfig } from '../../src/config/load.ts';
import { MANIFEST_FILE } from '../../src/plugin/manifest.ts';
import { makeHost } from '../../src/plugin/host.ts';
import type {
  NewPluginRequest,
  NewPluginResult,
  TestPluginRequest,
  TestPluginResult,
  Workshop,
} from '../../src/operation/extras.ts';
import type { Finding } from './finding.ts';
import { listScaffold, scaffold, type ScaffoldOptions } from './scaffold.ts';
import { testPlugin } from './test-plugin.ts';

export function makeWorkshop(configPath: string | undefined): Workshop {
  const { sdk, nativeSpawner, nodeSpawner } = findInstallPaths();
  const log = (): void => undefined;
  return {
    createPlugin(request) {
      const config = findConfig(configPath);
      const options = toScaffold(request, config, sdk);
      const files = scaffold(options);
      return Promise.resolve(describeCreated(options, files, config));
    },
    planCreate(request) {
      const files = listScaffold(toScaffold(request, findConfig(configPath), sdk));
      return Promise.resolve(files.map((file) => `${file} will be written.`));
    },
    async testPlugin(request) {
      checkRequest(request);
      const { directory, command, payload, settings, all = false } = request;
      const { plugin, findings } = await testPlugin({
        directory,
        command,
        payload: payload as JsonObject | undefined,
        settings: settings as JsonObject | undefined,
        all,
        host: makeHost({ kind: 'auto', nativePath: nativeSpawner, nodeScript: nodeSpawner, log }),
        env: createPluginEnvironment([]),
      });
      const passed = findings.every(({ verdict }) => verdict !== 'failed');
      return { directory, plugin: plugin ?? null, passed, findings: findings.map(showFinding) };
    },
    planTest(request) {
      checkRequest(request);
      const { directory, command, all = false } = request;
      const which =
        command ?? (all ? 'each of its commands' : 'each of its commands that only read');
      return Promise.resolve([`${directory} will be run several times, with ${which}.`]);
    },
  };
}

function toScaffold(
  { plugin, lang, dir }: NewPluginRequest,
  config: Config | undefined,
  sdk: string,
): ScaffoldOptions {
  const directory = resolve(dir ?? join(findOwnRoot(config) ?? '.', plugin));
  return { name: plugin, language: lang, directory, sdk };
}

function describeCreated(
  { directory, name }: ScaffoldOptions,
  files: string[],
  config: Config | undefined,
): NewPluginResult {
  const roots = config?.pluginRoots.map(({ path }) => path) ?? [];
  const isFound = roots.some((root) => directory === root || dirname(directory) === root);
  const enable = `Add ${JSON.stringify(dirname(directory))} to plugin_roots in config.yaml.`;
  return {
    plugin: name,
    directory,
    files,
    enable: isFound ? null : enable,
    next: [
      `ductile plugin test ${quoteShell(directory)} --all`,
      `ductile plugin run ${name} --command handle --payload '{"name": "Ann"}'`,
    ],
  };
}

/** Finds the first plugin root that belongs to the configuration, and not to the program. */
function findOwnRoot(config: Config | undefined): string | undefined {
  const roots = config?.pluginRoots.map(({ path }) => path) ?? [];
  return roots.find((path) => dirname(path) === config?.directory && existsSync(path));
}

/** Undefined when there is no valid configuration: a plugin can be created without one. */
function findConfig(configPath: string | undefined): Config | undefined {
  try {
    return readConfig({ given: configPath }).config;
  } catch {
    return undefined;
  }
}

function checkRequest({ directory, command, payload }: TestPluginRequest): void {
  if (!existsSync(join(directory, MANIFEST_FILE))) {
    throw new DuctileError('PLUGIN_NOT_FOUND', `there is no ${MANIFEST_FILE} in ${directory}`, {
      place: directory,
      hint: 'Use the directory of a plugin, or create one with `ductile plugin create`.',
    });
  }
  if (payload === undefined || command !== undefined) return;
  throw new DuctileError('INPUT_INVALID', 'payload needs a command, and none is set', {
    place: 'payload',
    hint: 'Set it with --command.',
  });
}

function showFinding(finding: Finding): TestPluginResult['findings'][number] {
  const { check, verdict, seen, command = null, means = null, mend = null } = finding;
  return { check, command, verdict, seen, means, mend };
}
