import { DuctileError, messageOf } from '../base/errors.ts';
import { makeId } from '../base/ids.ts';
import type { Log } from '../base/log.ts';
import type { LedgerContext } from '../engine/context.ts';
import type { Generation } from '../engine/generation.ts';
import { findPluginCommand, type Plugin } from '../plugin/catalog.ts';
import type { Dispatcher } from './dispatcher.service.ts';
import type { JobSubmission } from './enqueue.service.ts';
import type { InitRequest, PluginHealth, ClaimablePlugin, EnqueueResult } from './types.ts';

/** The results of the inits, as this process last read them. Jobs of a plugin wait for its `init`. */
export class InitHealth {
  readonly #context: LedgerContext;
  #known: ReadonlyMap<string, PluginHealth> = new Map();
  #claimable: { of: Generation; known: unknown; plugins: ClaimablePlugin[] } | undefined;

  constructor(context: LedgerContext) {
    this.#context = context;
  }

  get known(): ReadonlyMap<string, PluginHealth> {
    return this.#known;
  }

  set known(known: ReadonlyMap<string, PluginHealth>) {
    this.#known = known;
  }

  statusOf(plugin: Plugin): PluginHealth | undefined {
    return this.#known.get(keyOf(plugin.name, plugin.identity));
  }

  /** Returns whether the jobs of a plugin may start. */
  isReady(name: string): boolean {
    const plugin = this.#context.catalog.plugins.get(name);
    if (plugin === undefined || !hasInit(plugin)) return true;
    return this.statusOf(plugin)?.status === 'healthy';
  }

  /** Lists the claimable plugins. Those that wait for their init can only run `init` and `health`. */
  listClaimable(generation: Generation): readonly ClaimablePlugin[] {
    if (this.#claimable?.of !== generation || this.#claimable.known !== this.#known) {
      const isHealthy = (plugin: Plugin): boolean => this.statusOf(plugin)?.status === 'healthy';
      const plugins = holdUnhealthy(generation, isHealthy);
      this.#claimable = { of: generation, known: this.#known, plugins };
    }
    return this.#claimable.plugins;
  }
}

/** Requests the inits of plugins and reads their results. */
export interface PluginInits {
  /** Reads the results, before a generation becomes active. */
  load(): Promise<void>;
  /** Requests the inits that the active generation needs. Exactly one host runs each. */
  request(): Promise<void>;
  /** Reads the results again, and requests inits that were never requested. */
  refresh(): Promise<void>;
  /** Requests an init again. If one is in progress, the result is a duplicate of it. */
  rerun(plugin: Plugin, by: InitAuthor): Promise<EnqueueResult>;
}

/**
 * The requester of an init. Other fields of a submission are refused: an init is the same for all.
 */
type InitAuthor = Pick<JobSubmission, 'submittedBy' | 'actor' | 'id'> & Partial<JobSubmission>;

export function makePluginInits(
  context: LedgerContext,
  health: InitHealth,
  dispatcher: Pick<Dispatcher, 'releaseWaiting'>,
): PluginInits {
  const { ledger, commits } = context;
  const log = context.log.child('health');
  const listWithInit = (): Plugin[] => [...context.catalog.plugins.values()].filter(hasInit);

  const update = async (rows: readonly PluginHealth[]): Promise<void> => {
    const before = health.known;
    const inits = rows.filter(({ kind }) => kind === 'init');
    const now = new Map(inits.map((row) => [keyOf(row.plugin, row.fingerprint), row]));
    const changed = [...now].filter(([key, row]) => !isSame(row, before.get(key)));
    if (changed.length === 0 && now.size === before.size) return;
    health.known = now;
    const wanted = new Set(listWithInit().map(({ name, identity }) => keyOf(name, identity)));
    for (const [key, row] of changed) if (wanted.has(key)) logHealth(row, log);
    commits.publish({ claimable: true });
    if (changed.every(([, { status }]) => status === 'healthy')) return;
    // Jobs that were claimed ahead may not start either.
    await dispatcher.releaseWaiting(
      (plugin, command) => !['init', 'health'].includes(command) && !health.isReady(plugin),
    );
  };

  const request = async (plugins: readonly Plugin[], why: InitRequest['why']): Promise<void> => {
    if (plugins.length === 0) return;
    const by = { submittedBy: 'directive', actor: 'runtime' } as const;
    await update(
      await ledger.plugins.requireInits(plugins.map((plugin) => toInitRequest(plugin, why, by))),
    );
  };

  return {
    async load() {
      await update(await ledger.plugins.reviewHealth());
    },
    request: () => request(listWithInit(), 'adopted'),
    async refresh() {
      const plugins = listWithInit();
      if (plugins.length === 0) return;
      try {
        const isPending = plugins.some((plugin) => health.statusOf(plugin)?.status === 'pending');
        // A user may have requested an init on another host.
        await update(
          await (isPending ? ledger.plugins.reviewHealth() : ledger.plugins.listHealth()),
        );
        await request(
          plugins.filter((plugin) => health.statusOf(plugin) === undefined),
          'missing',
        );
      } catch (error) {
        log.warn('the health of plugins could not be read', { error: messageOf(error) });
      }
    },
    async rerun(plugin, by) {
      refuseDetails(plugin, by);
      const initRequest = toInitRequest(plugin, 'requested', by);
      await update(await ledger.plugins.requireInits([initRequest]));
      const { id } = initRequest.job;
      const jobId = health.statusOf(plugin)?.jobId ?? id;
      return jobId === id ? { jobId } : { jobId: id, duplicateOf: jobId };
    },
  };
}

/** Holds the jobs of plugins whose init has not succeeded. */
function holdUnhealthy(
  { claimable, catalog }: Generation,
  isHealthy: (plugin: Plugin) => boolean,
): ClaimablePlugin[] {
  return claimable.map((one) => {
    const plugin = catalog.plugins.get(one.name);
    if (plugin === undefined || !hasInit(plugin)) return one;
    return { ...one, init: { fingerprint: plugin.identity, isHeld: !isHealthy(plugin) } };
  });
}

function refuseDetails({ name }: Plugin, author: InitAuthor): void {
  const { payload = {}, context, dedupeKey, dedupeTtlMs, dependencyKey, due } = author;
  const given = {
    payload: Object.keys(payload).length > 0,
    context: context !== undefined,
    dedupe_key: dedupeKey !== undefined,
    dedupe_ttl: dedupeTtlMs !== undefined,
    dependency: dependencyKey !== undefined,
    run_at: due !== undefined,
  };
  const [place] = Object.entries(given).find(([, isGiven]) => isGiven) ?? [];
  if (place === undefined) return;
  throw new DuctileError('INPUT_INVALID', `the init of ${name} does not accept ${place}`, {
    place,
    hint: `Leave out ${place}. An init uses plugins.${name}.config and runs once, immediately.`,
  });
}

export function hasInit(plugin: Plugin): boolean {
  return findPluginCommand(plugin, 'init') !== undefined;
}

function isSame(one: PluginHealth, two: PluginHealth | undefined): boolean {
  return one.status === two?.status && one.jobId === two.jobId;
}

function keyOf(plugin: string, fingerprint: string): string {
  return `${fingerprint} ${plugin}`;
}

/** Drafts an init with a single attempt, because a person must look at a failed one. */
function toInitRequest(
  { name, identity }: Plugin,
  why: InitRequest['why'],
  { submittedBy, actor, id = makeId() }: InitAuthor,
): InitRequest {
  const work = { plugin: name, command: 'init', payload: '{}', maxAttempts: 1 };
  return {
    plugin: name,
    fingerprint: identity,
    why,
    job: { id, ...work, submittedBy, actor, initFor: identity },
  };
}

function logHealth({ plugin, status, reason, jobId }: PluginHealth, log: Log): void {
  const fields = { plugin, job_id: jobId };
  if (status === 'pending') log.info('the plugin is being set up; its jobs wait', fields);
  if (status === 'healthy') log.info('the plugin is set up', fields);
  if (status === 'unhealthy') {
    log.error('the plugin is unhealthy: its init failed, and its jobs wait', { ...fields, reason });
  }
}
