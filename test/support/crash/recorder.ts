/**
 * A plugin that writes its own record, independently of the service: a line at its start and one when
 * its work is done, each synced to disk before it continues or responds.
 */
import { readFileSync, statfsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Options of a job, which are part of its payload. */
export interface JobOptions {
  readonly sleep_ms?: number;
  /** Every attempt with a smaller number fails. */
  readonly fail_before?: number;
  /** Every attempt with a smaller number never ends by itself. */
  readonly hang_before?: number;
  readonly padding?: string;
  /** Dependency key. */
  readonly key?: string;
  /** Dedupe key of the emitted event, or of the run. */
  readonly dedupe?: string;
  /** Starts a run of the pipeline with this many elements instead of a job. */
  readonly items?: number;
}

/** A line of the record. */
export interface RecordLine {
  readonly job_id: string;
  readonly plugin: string;
  readonly attempt: number;
  readonly idempotency_key: string;
  readonly phase: 'start' | 'end';
  /** Time in milliseconds since 1970. */
  readonly at: number;
  readonly pid: number;
  /** Start of the process in the kernel's ticks; unlike pids, it isn't reused. */
  readonly born: string;
  /** Processes of earlier attempts of the same job or key that still ran at this start. */
  readonly survivors: readonly number[];
}

export const doneEvent = 'recorder.done';
/** The kernel's number of the file system type. */
const TMPFS = 0x1021994;

/**
 * Data in memory needs no sync, and a process for each sync would cost more than everything else.
 */
const sync = statfsSync(tmpdir()).type === TMPFS ? 'sync() { :; }' : '';

/** Program in the shell, which starts ten times faster than other interpreters. */
export const recorder = [
  '#!/bin/bash',
  sync,
  readFileSync(join(import.meta.dirname, 'recorder.sh'), 'utf8'),
].join('\n');

export async function readRecord(path: string): Promise<RecordLine[]> {
  const text = await readFile(path, 'utf8').catch(() => '');
  return text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as RecordLine);
}

/** True if the process that wrote the line still runs. */
export function isRunning({ pid, born }: RecordLine): boolean {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const [state = '', ...rest] = text.slice(text.lastIndexOf(')') + 2).split(' ');
    return !'ZX'.includes(state) && rest[18] === born;
  } catch {
    return false;
  }
}
