import { readFileSync } from 'node:fs';
import { parseJson } from '../../src/base/parse-json.ts';
import { rehearsalPaths } from './isolate-config.ts';

/** Line that a stub wrote at its start or its end. */
export interface RecordLine {
  readonly phase: 'start' | 'end';
  readonly job_id: string;
  readonly attempt: number;
  readonly plugin: string;
  readonly command: string;
  readonly idempotency_key: string;
  readonly pid: number;
  /** Start of the process, in milliseconds since 1970. */
  readonly born: number;
  /** Time of this line, in milliseconds since 1970. */
  readonly at: number;
}

/** Reads the complete lines: a kill can leave half a line. */
export function readStubRecord(directory: string): RecordLine[] {
  const lines = readFileSync(rehearsalPaths(directory).record, 'utf8').split('\n');
  return lines.flatMap((line) => {
    try {
      return [parseJson(line) as RecordLine];
    } catch {
      return [];
    }
  });
}

/** Finds the start of a process that hasn't written its end. */
export function findUnfinished(record: readonly RecordLine[], pid: number): RecordLine | undefined {
  const last = record.findLast((line) => line.pid === pid);
  return last?.phase === 'start' ? last : undefined;
}
