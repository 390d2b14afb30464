import { readFileSync } from 'node:fs';
import { parseJson } from '../../src/base/parse-json.ts';
import { stagePaths } from './stand-in.ts';

/** What a stand-in wrote down itself. */
export interface RecordLine {
  readonly phase: 'start' | 'end';
  readonly job_id: string;
  readonly attempt: number;
  readonly plugin: string;
  readonly command: string;
  readonly idempotency_key: string;
  readonly pid: number;
  /** When its process began, and when this was written, in milliseconds since 1970. */
  readonly born: number;
  readonly at: number;
}

/** One that was killed while it wrote may have left half a line. */
export function readRecord(directory: string): RecordLine[] {
  const lines = readFileSync(stagePaths(directory).record, 'utf8').split('\n');
  return lines.flatMap((line) => {
    try {
      return [parseJson(line) as RecordLine];
    } catch {
      return [];
    }
  });
}

/** What a process that runs has written about itself last; undefined when it has ended its work. */
export function lineOf(record: readonly RecordLine[], pid: number): RecordLine | undefined {
  const last = record.findLast((line) => line.pid === pid);
  return last?.phase === 'start' ? last : undefined;
}
