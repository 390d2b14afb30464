import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** The slowest files. They start first, so that no worker runs one alone at the end. */
const longest = /\.crash\.test\.ts$|\/docs\/pages-[\w-]+\.test\.ts$/;

export default class Sequence extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const isLong = ({ moduleId }: TestSpecification): boolean => longest.test(moduleId);
    return [...sorted.filter(isLong), ...sorted.filter((file) => !isLong(file))];
  }
}
