import * as z from 'zod';
import type { Finding } from '../config/findings.ts';
import { readConfig, type ConfigReading } from '../config/load.ts';
import type { Context } from '../operation/context.ts';
import { defineOperation } from '../operation/define.ts';
import { findingsShape, rankAllFindings, showFindings } from './findings.service.ts';
import type { FindingGuide } from './define-finding.service.ts';
import { doctorParts, findingId } from './finding.ts';
import { allFindings } from './findings/all.ts';
import { pluginNotLoaded } from './findings/plugins.ts';
import { findTier } from '../tenant/isolation-findings.operations.ts';
import {
  findInConfiguredLedger,
  listLiveFindings,
  findLedgerFaults,
  findOwnFaults,
  makeTargets,
  toLiveSubject,
  type LedgerFindings,
} from './ledger-findings.operations.ts';
import { listAllConfigFindings, loadOptions } from '../config/check.operations.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { limits } from '../base/limits.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { ANONYMOUS } from '../operation/authorize.ts';
import { canSeeHidden, unmaskedLedger, maskEngine } from '../operation/visibility.ts';

export const systemDoctor = defineOperation({
  name: 'system.doctor',
  summary: 'Check the installation. List each problem and how to resolve it.',
  effect: 'read',
  scope: 'system:ro',
  needs: 'files',
  input: z.strictObject({}),
  output: findingsShape,
  errors: ['CONFIG_NOT_FOUND', 'LEDGER_UNAVAILABLE'],
  http: { method: 'GET', path: '/system/doctor' },
  cli: {
    examples: ['ductile doctor', 'ductile doctor --json'],
    parts: doctorParts,
    exitCode: ({ errors }) => (errors === 0 ? 0 : 1),
  },
  async run(context) {
    if (context.configFiles !== undefined) return await examineService(context);
    const isTenant = context.principal.tenant !== undefined;
    return await shareFindings(context, isTenant ? examineTenant : examineService);
  },
});

/** Every kind of finding that `doctor` reports on a ledger, for the page of operators and agents. */
export const findingGuides: readonly FindingGuide[] = allFindings
  .filter(({ isHold }) => isHold !== true)
  .toSorted((a, b) => (a.kind < b.kind ? -1 : 1));

type ShownFindings = z.output<typeof findingsShape>;

/** All callers of one ledger share an examination, because dashboards request it again and again. */
const shareFindings = makeSharedFindings<ShownFindings>();

async function examineService(context: Context): Promise<ShownFindings> {
  const reading = readConfig(loadOptions(context));
  const { findings, hasTenants, credentials } = await examineLedger(reading, context);
  const found = [
    ...findings,
    ...(await listAllConfigFindings(reading, credentials)),
    ...findTier(reading, context, hasTenants),
  ];
  return showFindings(rankAllFindings(dropRepeated(found, credentials !== undefined)));
}

/** Examines a tenant's own ledger: nothing about files, the machine or other tenants. */
async function examineTenant({ engine }: Context): Promise<ShownFindings> {
  const [live, faults] = await Promise.all([
    listLiveFindings(toLiveSubject(engine, false)),
    findOwnFaults(engine.ledger, () => makeTargets(engine)),
  ]);
  // A package's location is a file of the machine.
  const own = faults.map((one) => ({
    ...one,
    place: one.live === undefined ? one.key : findingId(one.live),
  }));
  return showFindings(rankAllFindings([...live, ...own]));
}

/** Examines the ledger of the service. On the command line, it opens the ledger that the files name. */
async function examineLedger({ config }: ConfigReading, context: Context): Promise<LedgerFindings> {
  const { configFiles } = context;
  if (configFiles === undefined) {
    // Without a service there is no engine to read.
    const { engine } = context;
    const { findings, ...more } = await findLedgerFaults(engine.ledger, () => makeTargets(engine));
    const live = await listLiveFindings(toLiveSubject(engine, true));
    return { findings: [...live, ...findings], ...more };
  }
  return config === undefined ? notRead : findInConfiguredLedger(config, configFiles);
}

const notRead: LedgerFindings = { findings: [], hasTenants: false };

/**
 * Drops findings that two sources report. A plugin that doesn't load is a problem of its files. A
 * missing credential of a webhook is a finding of the ledger, if that was read.
 */
function dropRepeated(findings: readonly Finding[], isRead: boolean): Finding[] {
  const inFiles = new Set(findings.flatMap(({ live, key }) => (live === undefined ? key : [])));
  return findings.filter(({ live, key, category, severity }) => {
    if (live?.kind === pluginNotLoaded.kind) return !inFiles.has(`plugins.${key}`);
    const isReference = category === 'webhooks' && severity === 'warning' && SECRET_REF.test(key);
    return !(isReference && isRead && live === undefined);
  });
}

const SECRET_REF = /secret_ref$/;

/**
 * An examination that callers share. It starts after all of its callers have asked, so that each of
 * them sees its own writes. Before the next one, it pauses for twenty times the last duration, but at
 * most a second. So many clients don't keep the service busy.
 */
export class SharedExamination<T> {
  #examine: (() => Promise<T>) | undefined;
  #current: Promise<unknown> = Promise.resolve();
  #next: Promise<T> | undefined;
  #restMs = 0;
  #endedAtMs = -Infinity;

  /** Joins the next examination. It runs the function of the caller that came last. */
  get(examine: () => Promise<T>): Promise<T> {
    this.#examine = examine;
    this.#next ??= this.#begin(examine);
    return this.#next;
  }

  async #begin(first: () => Promise<T>): Promise<T> {
    await this.#current.catch(() => undefined);
    const leftMs = this.#endedAtMs + this.#restMs - performance.now();
    if (leftMs > 0) await sleep(leftMs);
    this.#next = undefined;
    const running = this.#measure(this.#examine ?? first);
    this.#current = running;
    return await running;
  }

  async #measure(examine: () => Promise<T>): Promise<T> {
    const since = performance.now();
    try {
      return await examine();
    } finally {
      this.#endedAtMs = performance.now();
      const tookMs = this.#endedAtMs - since;
      this.#restMs = Math.min(limits.figureMs, limits.figureRestFactor * tookMs);
    }
  }
}

type SharedByVisibility<T> = Readonly<Record<'exact' | 'masked', SharedExamination<T>>>;

/** Shares an examination between the callers of a service that see the same. */
export function makeSharedFindings<T>(): (
  context: Context,
  examine: (context: Context) => Promise<T>,
) => Promise<T> {
  const known = new WeakMap<Ledger, SharedByVisibility<T>>();
  return (context, examine) => {
    const ledger = unmaskedLedger(context.engine.ledger);
    let shared = known.get(ledger);
    if (shared === undefined) {
      shared = { exact: new SharedExamination(), masked: new SharedExamination() };
      known.set(ledger, shared);
    }
    if (canSeeHidden(context.principal)) return shared.exact.get(() => examine(context));
    // A caller can see the data of its own jobs. Other callers must not, so no such data is included.
    const engine = maskEngine(context.engine, ANONYMOUS);
    return shared.masked.get(() => examine({ ...context, engine, principal: ANONYMOUS }));
  };
}
