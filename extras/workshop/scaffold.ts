import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { DuctileError } from '../../src/base/errors.ts';
import { MANIFEST_FILE } from '../../src/plugin/manifest.ts';
import type { PluginLanguage } from '../../src/operation/extras.ts';

export interface ScaffoldOptions {
  readonly name: string;
  readonly language: PluginLanguage;
  /** Target directory; none of the files may exist. */
  readonly directory: string;
  /** The SDK that comes with the program. */
  readonly sdk: string;
}

/** Creates a working plugin, with a copy of the SDK's files. */
export function scaffold(options: ScaffoldOptions): string[] {
  const { directory } = options;
  const files = planScaffold(options);
  const existing = files.find(({ path }) => existsSync(path));
  if (existing !== undefined) {
    throw new DuctileError('PLUGIN_EXISTS', `${existing.path} exists already`, {
      place: directory,
    });
  }
  for (const { path, source, isProgram, edit } of files) {
    mkdirSync(dirname(path), { recursive: true });
    if (edit === undefined) copyFileSync(source, path);
    else writeFileSync(path, edit(readFileSync(source, 'utf8')));
    chmodSync(path, isProgram ? 0o755 : 0o644);
  }
  return files.map(({ path }) => path);
}

export function listScaffold(options: ScaffoldOptions): string[] {
  return planScaffold(options).map(({ path }) => path);
}

interface PlannedFile {
  readonly path: string;
  readonly source: string;
  readonly isProgram: boolean;
  /** Fills in the plugin's name; files without it are copied as they are. */
  readonly edit: ((text: string) => string) | undefined;
}

interface Language {
  readonly entrypoint: string;
  /** Paths below the SDK's directory. */
  readonly helpers: readonly string[];
}

const languages: Readonly<Record<PluginLanguage, Language>> = {
  ts: { entrypoint: 'run.ts', helpers: ['typescript/ductile-plugin.ts'] },
  python: { entrypoint: 'run.py', helpers: ['python/ductile_plugin.py'] },
  sh: { entrypoint: 'run.sh', helpers: ['sh/plugin.sh', 'sh/json.awk'] },
};

/** Placeholders of the template, which is a plugin itself. */
const placeholders = { name: 'your-plugin', entrypoint: 'run.py', helpers: 'your-helpers' };

function planScaffold({ name, language, directory, sdk }: ScaffoldOptions): PlannedFile[] {
  const { entrypoint, helpers } = languages[language];
  const names = helpers.map((path) => `\`${basename(path)}\``);
  const edit = (text: string): string =>
    text
      .replaceAll(placeholders.name, name)
      .replaceAll(placeholders.entrypoint, entrypoint)
      .replaceAll(
        placeholders.helpers,
        `${names.join(' and ')} ${names.length === 1 ? 'knows' : 'know'}`,
      )
      .replaceAll('../typescript/', './');
  const fromTemplate = (path: string, source = path): PlannedFile => ({
    path: join(directory, path),
    source: join(sdk, 'template', source),
    isProgram: path === entrypoint,
    edit,
  });
  return [
    fromTemplate(MANIFEST_FILE),
    fromTemplate(entrypoint),
    fromTemplate('README.md'),
    fromTemplate('examples/handle.json', 'example.json'),
    ...helpers.map((path) => ({
      path: join(directory, basename(path)),
      source: join(sdk, path),
      isProgram: false,
      edit: undefined,
    })),
  ];
}
