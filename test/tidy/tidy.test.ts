/** The shape of the tree: what imports what, how long things are, and what is written down. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { catalogue } from '../../src/base/error-catalogue.ts';
import { core } from '../../tools/core.ts';
import { findDrift, renderPages } from '../../tools/generate.ts';
import baseline from './baseline.json' with { type: 'json' };
import { type Facts, readFacts } from './facts.ts';
import {
  findFileFaults,
  findInexact,
  findUnexplained,
  findUnmatched,
  type Versions,
} from './file-rules.ts';
import { debts } from './debts.ts';
import { findLayerFaults } from './layers.ts';
import { countAll, findRaised } from './ratchet.ts';
import { findTextFaults } from './text.ts';
import { isSource, readTree, root, type TextFile } from './tree.ts';

/** The page about the past, which keeps the names of its time. */
const records = new Set(['CHANGELOG.md']);

let files: TextFile[];
let facts: Map<string, Facts>;

beforeAll(async () => {
  files = await readTree();
  facts = new Map(files.filter(isSource).map((file) => [file.path, readFacts(file)]));
});

describe('sources', () => {
  test('are found and understood', () => {
    expect(facts.size).toBeGreaterThan(5);
    expect(facts.get('src/base/probe.ts')?.readsEnvironment).toBe(true);
  });

  test('import only from their left, in no circle', () => {
    const graph = new Map([...facts].map(([path, { imports }]) => [path, imports]));
    expect(findLayerFaults(graph, debts)).toEqual([]);
  });

  test('keep SQL in the ledger and the environment in configuration', () => {
    expect([...facts].flatMap(([path, found]) => findFileFaults(path, found))).toEqual([]);
  });

  test('parse JSON by the one function that keeps every number', () => {
    const own = [
      'src/base/json.ts',
      'src/base/parse-json.ts',
      // The package.json of the program, and a program that runs without our modules.
      'src/app/install-paths.ts',
      'extras/prove/stub-program.ts',
    ];
    const rounding = files
      .filter(isSource)
      .filter(({ text }) => /JSON\.parse\(|(?<!\bz)\.json\(\)/.test(text))
      .map(({ path }) => path);
    expect(rounding.toSorted()).toEqual(own.toSorted());
  });

  test('use every error code of the catalogue', () => {
    const used = new Set([...facts.values()].flatMap(({ strings }) => strings));
    expect(Object.keys(catalogue).filter((code) => !used.has(code))).toEqual([]);
  });
});

describe('files', () => {
  test('are short, finished and free of traces of a machine', () => {
    expect(files.flatMap(findTextFaults)).toEqual([]);
  });
});

describe('the style counts', () => {
  test('are not above their baseline; `npm run ratchet -- --since origin/main` lists what was added', () => {
    expect(findRaised(countAll(files), baseline)).toEqual([]);
  });
});

describe('the list of tools/core.ts', () => {
  test('names only files that exist', () => {
    const paths = files.map(({ path }) => path);
    expect(findUnmatched(Object.keys(core), paths)).toEqual([]);
  });
});

describe('pages', () => {
  test('name only source files that exist', () => {
    const paths = new Set(files.map(({ path }) => path));
    const pages = files.filter(({ path }) => path.endsWith('.md') && !records.has(path));
    const missing = pages.flatMap(({ path, text }) =>
      [...text.matchAll(/`((?:src|extras|test|tools|bench|web)\/[\w./-]+\.tsx?)`/g)]
        .map(([, named = '']) => named)
        .filter((named) => !paths.has(named))
        .map((named) => `${path} names ${named}`),
    );
    expect(missing).toEqual([]);
  });
});

describe('dependencies', () => {
  test('are pinned to one exact version, each with a written reason', async () => {
    const page = await readFile(join(root, 'docs/internals/dependencies.md'), 'utf8');
    const versions = {
      ...(await readVersions('package.json')),
      ...(await readVersions('tools/runtime/package.json')),
    };
    expect(findInexact(versions)).toEqual([]);
    expect(findUnexplained(Object.keys(versions), page)).toEqual([]);
  });
});

describe('reference pages', () => {
  test('are what the code gives', async () => {
    expect((await findDrift()).map(({ path }) => path)).toEqual([]);
  });

  test('name every error code', () => {
    const page = renderPages().find(({ path }) => path === 'docs/reference/errors.md');
    for (const code of Object.keys(catalogue)) expect(page?.text).toContain(`\n## ${code}\n`);
  });
});

async function readVersions(path: string): Promise<Versions> {
  const manifest = JSON.parse(await readFile(join(root, path), 'utf8')) as Record<string, Versions>;
  return {
    ...manifest['dependencies'],
    ...manifest['devDependencies'],
    ...manifest['optionalDependencies'],
  };
}
