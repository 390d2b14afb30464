/** A kind of broken installation, and how an operator repairs it with nothing but `doctor`. */
import { setTimeout as sleep } from 'node:timers/promises';
import { messageOf } from '../../../src/base/errors.ts';
import type { Database } from '../../support/instance.ts';
import type { Figures } from '../support/report.ts';
import { makeInstallation, type Installation, type InstallationSetup } from './installation.ts';
import { makeAgentOperator } from './agent.ts';
import { findLongAnswers, makeOperator, type Finding, type Operator } from './operator.ts';

export interface Breakage {
  readonly name: string;
  readonly setup: InstallationSetup;
  /** The databases on which it can happen; both unless set. */
  readonly databases?: readonly Database[];
  /** Starts the service and whatever else a healthy installation has (default: the service). */
  start?(installation: Installation): Promise<void>;
  /** Breaks the installation in a realistic way, and waits until it is broken. */
  break(installation: Installation): Promise<Broken>;
  /** True if `why` is answered by another service, which doesn't have the finding. */
  readonly isUnexplained?: boolean;
  /** The expected content of one finding of `doctor`. */
  readonly finding: ExpectedFinding;
}

/** The steps of the repair. */
export interface Broken {
  /**
   * A repair that no command does: the edit, the file or the decision that the finding's `fix` asks
   * for.
   */
  byHand?(finding: Finding): Promise<void>;
  /** Fills in what only the operator knows, such as where a backup is. */
  adapt?(command: string): string;
  /** The secret that a command prompts for; no output contains it. */
  input?(finding: Finding): string;
  /** Rejects unless the installation works again. */
  works(): Promise<void>;
}

export interface ExpectedFinding {
  readonly id: RegExp;
  readonly message: RegExp;
  readonly evidence: RegExp;
  readonly fix: RegExp;
  /** The first command, which is run exactly as it is. */
  readonly command: RegExp;
}

const CALLS_MAX = 10;
const patienceMs = 240_000;
const restMs = 250;
/** Two checks of the service, which come every 15 s. */
const GONE_MS = 35_000;

export interface Story {
  readonly breakage: Breakage;
  readonly database: Database;
  readonly surface: Surface;
}

/** The command line with `--config` or with DUCTILE_CONFIG_DIR, or an agent's tools. */
export type Surface = (typeof surfaces)[number];
export const surfaces = ['flag', 'variable', 'mcp'] as const;

/** Builds, breaks and repairs an installation; throws all faults that an operator would notice. */
export async function playStory({ breakage, database, surface }: Story): Promise<Figures> {
  const installation = await makeInstallation(database, breakage.setup);
  await (breakage.start?.(installation) ?? installation.start());
  const monitor = await makeOperator(installation, 'variable');
  const before = findUrgent(await monitor.doctor(), breakage);
  if (before.length > 0) throw new Error(`healthy, but doctor says:\n${listFindings(before)}`);
  const broken = await breakage.break(installation);
  const { finding } = breakage;
  await waitUntilFound(installation, monitor, finding);
  const operator = await (surface === 'mcp'
    ? makeAgentOperator(installation.directory)
    : makeOperator(installation, surface));
  const faults = await followDoctor({ breakage, broken, installation, operator });
  await broken.works().catch((error: unknown) => faults.push(`not repaired: ${messageOf(error)}`));
  const { answers } = operator;
  faults.push(...findLongAnswers(answers));
  if (answers.length > CALLS_MAX) faults.push(`it took ${answers.length} calls`);
  if (faults.length > 0) {
    const lines = answers.map(({ line, code }) => `${code} $ ${line}`);
    throw new Error([`${breakage.name} on ${database}`, ...faults, ...lines].join('\n'));
  }
  const bytes = answers.map(({ stdout, stderr }) => stdout.length + stderr.length);
  return { repaired: 1, calls: [answers.length], largestAnswer: [Math.max(...bytes)] };
}

interface Repair {
  readonly breakage: Breakage;
  readonly broken: Broken;
  readonly installation: Installation;
  readonly operator: Operator;
}

/** Follows the most urgent finding until there is none; returns the faults of the findings. */
async function followDoctor({ breakage, broken, installation, operator }: Repair) {
  const faults: string[] = [];
  const tried = new Set<string>();
  let wasNamed = false;
  while (operator.answers.length < CALLS_MAX) {
    const findings = findUrgent(await operator.doctor(), breakage);
    const next =
      findings.find(({ id }) => !tried.has(id)) ??
      findings.find((finding) => findAcknowledgement(finding) !== undefined);
    if (next === undefined) {
      if (findings.length > 0) faults.push(`doctor still says:\n${listFindings(findings)}`);
      break;
    }
    const isExpected = breakage.finding.id.test(next.id);
    if (isExpected) faults.push(...judgeFinding(next, breakage.finding));
    wasNamed ||= isExpected;
    const command = tried.has(next.id) ? findAcknowledgement(next) : next.commands[0];
    tried.add(next.id);
    if (isExpected && breakage.isUnexplained !== true)
      await operator
        .why(next.why ?? next.id)
        .catch((error: unknown) => faults.push(messageOf(error)));
    await broken.byHand?.(next);
    if (command !== undefined) {
      const line = broken.adapt?.(command) ?? command;
      const { code, stdout, stderr } = await runWhileAway(operator, line, broken.input?.(next));
      if (code !== 0) faults.push(`${command} exited with ${code}: ${stdout}${stderr}`);
    }
    await waitUntilGone(installation, next);
  }
  if (!wasNamed) faults.push(`no finding matched ${breakage.finding.id}`);
  return faults;
}

/** A service that crashes repeatedly may be down for a moment; an operator repeats the command then. */
async function runWhileAway(operator: Operator, line: string, input: string | undefined) {
  let answer = await operator.run(line, input);
  while (answer.stderr.includes('SERVER_UNREACHABLE') && operator.answers.length < CALLS_MAX) {
    await sleep(restMs);
    answer = await operator.run(line, input);
  }
  return answer;
}

/** Some findings are about the past; an operator who has repaired the cause acknowledges them. */
function findAcknowledgement({ commands }: Finding): string | undefined {
  return commands.find((command) => command.startsWith('ductile incident acknowledge '));
}

/** Leaves out informational findings, unless they are the expected ones. */
function findUrgent(findings: readonly Finding[], { finding }: Breakage): Finding[] {
  return findings.filter(({ severity, id }) => severity !== 'info' || finding.id.test(id));
}

function judgeFinding(finding: Finding, expected: ExpectedFinding): string[] {
  const actual = {
    message: finding.message,
    evidence: finding.evidence ?? '',
    fix: finding.fix,
    command: finding.commands[0] ?? '',
  };
  return Object.entries(actual)
    .filter(([part, text]) => !expected[part as keyof typeof actual].test(text))
    .map(([part, text]) => {
      const pattern = String(expected[part as keyof typeof actual]);
      return `the ${part} of ${finding.id} is "${text}", which ${pattern} does not match`;
    });
}

async function waitUntilFound(
  installation: Installation,
  monitor: Operator,
  expected: ExpectedFinding,
): Promise<void> {
  let last: readonly Finding[] = [];
  const until = performance.now() + patienceMs;
  do {
    last = await lookUp(installation, monitor);
    if (last.some(({ id }) => expected.id.test(id))) return;
    await sleep(restMs);
  } while (performance.now() < until);
  throw new Error(`doctor never named ${expected.id}; it said:\n${listFindings(last)}`);
}

/** The service may remove a finding only at its next check, so this waits for a moment. */
async function waitUntilGone(installation: Installation, { id }: Finding): Promise<void> {
  const until = performance.now() + GONE_MS;
  while (performance.now() < until) {
    const findings = await lookUp(installation, undefined);
    if (!findings.some((finding) => finding.id === id)) return;
    await sleep(restMs);
  }
}

/** Requests the findings from the service, which is faster than a new process, or else from the monitor. */
async function lookUp(installation: Installation, monitor: Operator | undefined) {
  try {
    const { status, body } = await installation.client.get('/system/doctor');
    if (status === 200) return body['findings'] as unknown as readonly Finding[];
  } catch {
    // The service is down, which may be the breakage.
  }
  return (await monitor?.doctor()) ?? [];
}

function listFindings(findings: readonly Finding[]): string {
  return findings
    .map(({ id, severity, message, evidence, fix, commands }) =>
      [`- ${severity} ${id}: ${message}`, evidence, fix, ...commands.map((one) => `$ ${one}`)]
        .filter((part) => part !== null)
        .join('\n    '),
    )
    .join('\n');
}
