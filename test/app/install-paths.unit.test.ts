/** The command that the program's own output recommends. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { findTypedCommand } from '../../src/app/install-paths.ts';
import { makeDirectory } from '../support/directory.ts';

test('an installed program is named, that of a clone is found from where one is', async () => {
  const root = await makeDirectory();
  const program = join(root, 'bin', 'ductile.cjs');
  const typed = (argv1: string, cwd: string): string =>
    findTypedCommand(root, { argv: ['node', argv1], cwd });
  expect(typed(program, root)).toBe('ductile');
  await writeFile(join(root, 'ductile'), '');
  expect(typed(program, root)).toBe('./ductile');
  expect(typed(program, join(root, 'docs'))).toBe('../ductile');
  expect(typed('/usr/local/bin/ductile', root)).toBe('ductile');
});
