import { fromTimestamp } from '../base/clock.ts';
import { DuctileError } from '../base/errors.ts';
import { makeId } from '../base/ids.ts';
import { toKeptText } from '../base/kept-text.ts';
import { limits } from '../base/limits.ts';
import type { JobDraft } from '../job/job.ts';
import type { ContextDraft, Enqueued, Ledger } from '../ledger/ledger.ts';
import { lookupCommand, type Catalog, type Plugin } from '../plugin/catalog.ts';
import { checkPayload } from '../plugin/payload.ts';
import type { Submission } from './engine.ts';

/** The one door in: everything that is accepted from outside passes here and is committed. */
export interface Door {
  submit(submission: Submission): Promise<Enqueued>;
}

interface Waiting {
  readonly job: JobDraft;
  readonly context: ContextDraft | undefined;
  readonly resolve: (enqueued: Enqueued) => void;
  readonly reject: (error: unknown) => void;
}

/** What was submitted in one turn of the event loop is one batch and one commit. */
export function makeDoor(
  ledger: Ledger,
  catalog: () => Catalog,
  dedupeTtlMs: () => number,
  onEnqueued: (enqueued: readonly Enqueued[]) => void,
  /** Something was accepted that is due in this time. */
  onDelayed: (ms: number) => void,
): Door {
  let waiting: Waiting[] = [];

  const enqueue = async (batch: readonly Waiting[]): Promise<void> => {
    try {
      const enqueued = await ledger.enqueue({
        jobs: batch.map(({ job }) => job),
        contexts: batch.flatMap(({ context }) => (context === undefined ? [] : [context])),
      });
      batch.forEach(({ job, resolve }, index) => resolve(enqueued[index] ?? { jobId: job.id }));
      onEnqueued(enqueued);
      // The database's clock decides; ours only says when to look.
      for (const { job } of batch) if (job.due !== undefined) onDelayed(untilDue(job.due));
    } catch (error) {
      // What the ledger refuses of one is no reason to refuse the others that came with it.
      if (batch.length > 1 && !(error instanceof DuctileError)) {
        for (const one of batch) await enqueue([one]);
      } else for (const { reject } of batch) reject(error);
    }
  };

  const flush = (): void => {
    const batch = waiting;
    waiting = [];
    void enqueue(batch);
  };

  return {
    async submit(submission) {
      const plugin = findPlugin(submission, catalog());
      const draft = toDraft(submission, plugin, dedupeTtlMs());
      // Most commands have no schema, and their jobs should not wait for a turn of their own.
      if (plugin.manifest.commands[submission.command]?.inputSchema !== undefined) {
        await checkPayload(plugin, submission.command, submission.payload);
      }
      return await new Promise((resolve, reject) => {
        if (waiting.length === 0) setImmediate(flush);
        waiting.push({ ...draft, resolve, reject });
      });
    },
  };
}

function findPlugin(submission: Submission, catalog: Catalog): Plugin {
  const plugin = catalog.plugins.get(submission.plugin);
  if (plugin === undefined) {
    throw new DuctileError('PLUGIN_NOT_FOUND', `there is no plugin ${submission.plugin}`);
  }
  if (lookupCommand(plugin, submission.command) === undefined) {
    const known = Object.keys(plugin.manifest.commands).join(', ');
    const message = `the plugin ${plugin.name} has no command ${submission.command}`;
    throw new DuctileError('COMMAND_NOT_FOUND', message, { hint: `It has: ${known}.` });
  }
  return plugin;
}

function toDraft(
  submission: Submission,
  plugin: Plugin,
  dedupeTtlMs: number,
): { job: JobDraft; context: ContextDraft | undefined } {
  const payload = toKeptText(submission.payload, 'payload');
  const context: ContextDraft | undefined =
    submission.context === undefined
      ? undefined
      : { id: makeId(), accumulated: toKeptText(submission.context, 'context') };
  const { dedupeKey } = submission;
  if (dedupeKey !== undefined) toKeptText(dedupeKey, 'dedupe_key', limits.dedupeKeyBytesMax);
  return {
    context,
    job: {
      id: submission.id ?? makeId(),
      plugin: plugin.name,
      command: submission.command,
      payload,
      submittedBy: submission.submittedBy,
      actor: submission.actor,
      maxAttempts: attemptsOf(plugin, submission.command),
      ...(dedupeKey === undefined
        ? {}
        : {
            dedupe: {
              key: dedupeKey,
              ttlMs: submission.dedupeTtlMs ?? dedupeTtlMs,
              blockInFlight: false,
            },
          }),
      ...(submission.due === undefined ? {} : { due: submission.due }),
      ...(context === undefined ? {} : { eventContextId: context.id }),
    },
  };
}

function untilDue(due: NonNullable<JobDraft['due']>): number {
  const ms = 'inMs' in due ? due.inMs : fromTimestamp(due.at) - Date.now();
  return Math.min(ms, limits.timerMsMax);
}

/** Who asks how a plugin is, or sets it up, wants to know what came of it and not of the fourth try. */
function attemptsOf({ retry }: Plugin, command: string): number {
  return command === 'health' || command === 'init' ? 1 : retry.maxAttempts;
}
