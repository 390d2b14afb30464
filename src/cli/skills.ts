import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { toDuctileError } from '../base/errors.ts';
import { isDryRun } from '../operation/write-mode.ts';
import { ask } from './ask.ts';
import { makePrinter } from './options.ts';
import type { Common, Session } from './host.ts';
import { printJson } from './print-json.ts';
import { renderSkills, type SkillPlugin } from './skill-pages.ts';
import { rowsOf } from './view-parts.ts';

export interface SkillsOptions extends Common {
  readonly dir: string;
  readonly dryRun?: boolean;
  readonly stdout?: boolean;
  readonly apply?: boolean;
}

/** Writes the pages, and replaces earlier ones, or prints them. A dry run only lists them. */
export async function exportSkills(session: Session, options: SkillsOptions): Promise<void> {
  const { io } = session;
  const directory = join(resolve(io.cwd, options.dir), 'ductile');
  const isDry = isDryRun(options.dryRun, options.apply);
  const pages = renderSkills(await readPlugins(session, options));
  if (options.stdout === true) {
    io.stdout.write([...pages.values()].join('\n'));
    return;
  }
  for (const [name, text] of isDry ? [] : pages) {
    const path = join(directory, name);
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, text);
  }
  const printer = makePrinter(io, options);
  const output = { directory, files: [...pages.keys()], ...(isDry ? { dry_run: true } : {}) };
  if (options.json === true) printJson(session, options, output);
  else if (isDry) {
    printer.line(`${pages.size} pages would be written to ${directory}:`);
    for (const name of pages.keys()) printer.line(`  ${name}`);
  } else
    printer.line(
      `${pages.size} pages written; an agent begins with ${join(directory, 'SKILL.md')}`,
    );
}

/** Without a configuration the pages about Ductile itself are still worth having. */
async function readPlugins(
  session: Session,
  options: Common,
): Promise<readonly SkillPlugin[] | undefined> {
  try {
    const { plugins } = await ask(session, options, 'plugin.list', {});
    const names = rowsOf(plugins).map(({ name }) => String(name));
    const shown: SkillPlugin[] = [];
    for (const plugin of names) {
      shown.push(
        (await ask(session, options, 'plugin.inspect', { plugin })) as unknown as SkillPlugin,
      );
    }
    return shown;
  } catch (thrown) {
    const { code } = toDuctileError(thrown);
    if (code !== 'CONFIG_NOT_FOUND') throw thrown;
    session.io.stderr.write('There is no configuration, so nothing is said of plugins.\n');
    return undefined;
  }
}
