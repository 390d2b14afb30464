/**
 * Compares the style counts of the tree with test/tidy/baseline.json and lowers the baseline. With
 * part of a count's name it lists what that count found. `--since REF` lists what was added after REF.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { type Baseline, type Count, countAll, lowerBaseline } from '../test/tidy/ratchet.ts';
import { type Occurrence, readTree, root } from '../test/tidy/tree.ts';

type Counts = Readonly<Record<string, Count>>;

const file = join(root, 'test/tidy/baseline.json');
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { since: { type: 'string' } },
});
const counts = countAll(await readTree());
if (values.since !== undefined) listAdded(counts, await countAt(values.since));
else if (positionals.length > 0) listFound(counts, positionals.join(' '));
else lower(counts);

function lower(current: Counts): void {
  const baseline = JSON.parse(readFileSync(file, 'utf8')) as Baseline;
  const lowered = lowerBaseline(current, baseline);
  for (const [name, { value, goal }] of Object.entries(current)) {
    const [before, after = value] = [baseline[name], lowered[name]];
    const change = before === undefined || before === after ? '' : `, lowered from ${before}`;
    const rise = value > Math.max(after, goal) ? `, RAISED from ${after}` : '';
    console.log(`${name}: ${value} (goal: ${goal})${change}${rise}`);
  }
  writeFileSync(file, `${JSON.stringify(lowered, undefined, 2)}\n`);
}

function listFound(current: Counts, part: string): void {
  for (const [name, { value, found }] of Object.entries(current)) {
    if (name.includes(part)) list(`${name}: ${value}`, found);
  }
}

function listAdded(current: Counts, earlier: Counts): void {
  for (const [name, { value, found }] of Object.entries(current)) {
    const left = (earlier[name]?.found ?? []).map(({ text }) => text);
    const added = found.filter(({ text }) => {
      const index = left.indexOf(text);
      if (index !== -1) left.splice(index, 1);
      return index === -1;
    });
    if (added.length > 0) list(`${name}: ${earlier[name]?.value ?? 0} → ${value}`, added);
  }
}

function list(title: string, found: readonly Occurrence[]): void {
  console.log(title);
  for (const { path, line, text } of found) {
    console.log(`  ${path}${line === undefined ? '' : `:${line}`} ${text}`);
  }
}

async function countAt(ref: string): Promise<Counts> {
  const directory = mkdtempSync(join(tmpdir(), 'ratchet-'));
  try {
    const archive = join(directory, 'tree.tar');
    for (const command of [
      ['git', '-C', root, 'archive', '-o', archive, ref],
      ['tar', '-xf', archive, '-C', directory],
      ['rm', archive],
    ] as const) {
      const [program, ...args] = command;
      const { status, stderr } = spawnSync(program, args, { encoding: 'utf8' });
      if (status !== 0) throw new Error(`${command.join(' ')}: ${stderr}`);
    }
    return countAll(await readTree(directory));
  } finally {
    rmSync(directory, { recursive: true });
  }
}
