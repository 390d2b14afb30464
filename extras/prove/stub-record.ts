import { readFileSync } from 'node:fs';
import { parseJson } from '../../src/base/parse-json.ts';
import { stagePaths } from './isolate-config.ts';

/** Line that a stand-in wrote itself. */
export interface RecordLine {
  readonly phase: 'start' | 'end';
  readonly job_id: string;
  readonly attempt: number;
  readonly plugin: string;
  readonly command: string;
  readonly idempotency_key: string;
  readonly pid: number;
  /** Start of the process, and time of this line, in milliseconds since 1970. */
  readonly born: number;
  readonly at: number;
}

/** A kill may have left half a line. */
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

/** Finds the last line of a running process; undefined if it has finished its work. */
export function lineOf(record: readonly RecordLine[], pid: number): RecordLine | undefined {
  const last = record.findLast((line) => line.pid === pid);
  return last?.phase === 'start' ? last : undefined;
}
