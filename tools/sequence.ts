import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Those that take longest: a worker that begins with one of them last would end alone. */
const LONGEST = '/test/crash/';

export default class Sequence extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const isLong = ({ moduleId }: TestSpecification): boolean => moduleId.includes(LONGEST);
    return [...sorted.filter(isLong), ...sorted.filter((file) => !isLong(file))];
  }
}
