import { matchesGlob, relative } from 'node:path';
import type { Reporter } from 'vitest/node';
import { core } from './core.ts';

/** The parts of a coverage map that the reporter needs. */
interface Coverage {
  files(): readonly string[];
  fileCoverageFor(path: string): { toSummary(): { branches: Count } };
}

interface Count {
  readonly total: number;
  readonly covered: number;
}

/** Prints the share of the core's branches that tests take. Vitest itself fails if it is too small. */
export default class BranchReporter implements Reporter {
  onCoverage(coverage: unknown): void {
    const { isCounted, counts } = countAll(coverage as Coverage);
    if (!isCounted) return;
    console.log('Branches of the core that tests take:');
    for (const { files, least, total, covered } of counts) {
      const part = ((covered / total) * 100).toFixed(1);
      console.log(`  ${part} % of ${total}, at least ${least} %: ${files}`);
    }
  }
}

function countAll(coverage: Coverage) {
  const found = coverage.files().map((path) => ({
    path: relative(process.cwd(), path),
    ...coverage.fileCoverageFor(path).toSummary().branches,
  }));
  const counts = Object.entries(core).map(([files, least]) => {
    const inside = found.filter(({ path }) => matchesGlob(path, files));
    const sum = (field: keyof Count): number =>
      inside.reduce((all, { [field]: count }) => all + count, 0);
    return { files, least, total: sum('total'), covered: sum('covered') };
  });
  return { isCounted: found.length > 0, counts };
}
