/** Reads what is on record about names of the configuration, findings and incidents. */
import { DuctileError } from '../../base/errors.ts';
import { findingId, type LiveFinding } from '../finding.ts';
import type { Incident } from '../types.ts';
import type { Context } from '../../operation/context.ts';
import { allows } from '../../access/scopes.ts';
import type { Explanation } from './explanation.ts';
import { type Found, findSubject, kindScopes, splitName } from './find-subject.ts';
import { readHouse, readPlugin } from './facts.ts';
import { explainFinding, explainIncident, readLiveFindings } from './finding.ts';
import { explainPipeline, explainPlugin } from './plugin.ts';

type Explain = (context: Context, found: Found) => Promise<Explanation>;

/** The newest of a list; one of them is explained. */
const FEW = { limit: 4 };

export async function explainPluginName(
  context: Context,
  name: string,
  explain: Explain,
): Promise<Explanation> {
  const { engine } = context;
  const { plugin, part } = splitName(name);
  const of = { plugin, ...(part === undefined ? {} : { command: part }) };
  const [house, facts, breakers, findings, jobs] = await Promise.all([
    readHouse(engine),
    readPlugin(engine, plugin),
    engine.ledger.breakers.list(of),
    readFindings(context),
    isAllowed(context, 'job') ? engine.ledger.jobs.list({ ...of, ...FEW }) : [],
  ]);
  const about = findings.filter(({ key, detail }) => isAbout({ key, detail }, plugin, part));
  const [newest] = jobs;
  const isGood = newest === undefined || newest.status === 'succeeded';
  const deeper = isGood ? undefined : await explain(context, { kind: 'job', job: newest });
  return explainPlugin({ name, house, plugin: facts, breakers, findings: about, jobs, deeper });
}

function isAbout(
  { key, detail }: Pick<LiveFinding, 'key' | 'detail'>,
  plugin: string,
  command: string | undefined,
): boolean {
  if (command !== undefined) return key === `${plugin}/${command}`;
  return key === plugin || key.startsWith(`${plugin}/`) || detail?.['plugin'] === plugin;
}

export async function explainPipelineName(
  context: Context,
  name: string,
  explain: Explain,
): Promise<Explanation> {
  const { ledger } = context.engine;
  const [findings, runs] = await Promise.all([
    readFindings(context),
    isAllowed(context, 'run') ? ledger.runs.list({ pipeline: name, ...FEW }) : [],
  ]);
  const about = findings.filter(({ key, detail }) => key === name || detail?.['pipeline'] === name);
  const [newest] = runs;
  const deeper =
    newest === undefined ? undefined : await explain(context, { kind: 'run', run: newest });
  return explainPipeline({ name, findings: about, runs, deeper });
}

export async function explainFindingOf(
  context: Context,
  finding: LiveFinding,
  explain: Explain,
): Promise<Explanation> {
  return explainFinding({ finding, deeper: await explainObject(context, finding, explain) });
}

export async function explainIncidentOf(
  context: Context,
  incident: Incident,
  explain: Explain,
): Promise<Explanation> {
  const findings = incident.closedAt === null ? await readFindings(context) : [];
  const finding = findings.find((one) => findingId(one) === findingId(incident));
  const deeper = finding === undefined ? undefined : await explainObject(context, finding, explain);
  return explainIncident(incident, { finding, deeper });
}

/** Findings are for those who may see all of the system. */
async function readFindings(context: Context): Promise<LiveFinding[]> {
  return isAllowed(context, 'finding') ? await readLiveFindings(context.engine) : [];
}

function isAllowed({ principal }: Context, kind: keyof typeof kindScopes): boolean {
  return allows(principal.scopes, kindScopes[kind]);
}

/** A finding may name another finding or itself; only objects are explained further. */
const objectKinds: ReadonlySet<string> = new Set([
  'job',
  'run',
  'schedule',
  'webhook',
  'signal',
  'directive',
  'delivery',
]);

async function explainObject(
  context: Context,
  { why }: LiveFinding,
  explain: Explain,
): Promise<Explanation | undefined> {
  if (why === undefined) return undefined;
  try {
    const found = await findSubject(context, why, 'any');
    return objectKinds.has(found.kind) ? await explain(context, found) : undefined;
  } catch (error) {
    // The object may be pruned, or out of sight of the caller.
    if (error instanceof DuctileError && error.kind.status < 500) return undefined;
    throw error;
  }
}
