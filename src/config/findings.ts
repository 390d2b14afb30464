import { statSync } from 'node:fs';
import { isIP } from 'node:net';
import { isObject } from '../base/json.ts';
import {
  describeFileFix,
  type FileCategory,
  type FindingCategory,
  type LiveFinding,
  type Severity,
} from '../insight/finding.ts';
import { valueAt } from './address.ts';
import type { ApiConfig, Config } from './config.ts';
import { keyText } from './document.ts';
import type { KeyPath } from './document.ts';
import { redact } from './effective.ts';
import type { ConfigReading } from './load.ts';
import { makeProblem } from './problem.ts';
import type { Problem } from './problem.ts';
import { makeUnlockedProblem } from './integrity.ts';
import { findUnread } from './find.ts';

/** A problem of the configuration or the service, with its severity. */
export interface Finding extends Problem {
  /** `error`: the service doesn't start, or not completely. `info`: no action is needed. */
  readonly severity: Severity;
  readonly category: FindingCategory;
  readonly hint: string;
  /** The finding on the ledger. Undefined for a finding in the files. */
  readonly live?: LiveFinding;
}

/** Shorter tokens can be guessed. */
const TOKEN_CHARS_MIN = 16;

export const ONE_WORKER =
  'service.max_workers is 1, so one slow job blocks all others until it ends';

/** Finds problems of the files alone, without loading plugins. */
export function findConfigFindings(reading: ConfigReading): Finding[] {
  const { config, problems } = reading;
  return [
    ...problems.map((problem) => toFinding('error', 'content', problem)),
    ...findUnread(reading.found, reading.files).map((problem) =>
      toFinding('warning', 'content', problem),
    ),
    ...reading.translated.map((note) => toFinding('warning', 'content', note)),
    ...(config === undefined
      ? []
      : reading.links.map((link) => toFinding('warning', 'content', link))),
    ...findIntegrity(reading),
    ...findPermissions(reading),
    ...(config === undefined
      ? []
      : [
          ...findExposure(reading, config),
          ...findState(config),
          ...findOneWorker(reading, config),
        ]),
  ];
}

export function toFinding(severity: Severity, category: FileCategory, problem: Problem): Finding {
  return { ...problem, severity, category, hint: problem.hint ?? describeFileFix(category) };
}

function findIntegrity({ manifest, drift, config, found }: ConfigReading): Finding[] {
  if (manifest.state === 'unusable') return [toFinding('error', 'integrity', manifest.problem)];
  const admission = config?.service.admission;
  const high = drift.filter(({ tier }) => tier === 'high');
  if (manifest.state === 'absent' && high.length === 0) {
    const severity = admission?.verifyIntegrityOnBoot === true ? 'error' : 'warning';
    return [toFinding(severity, 'integrity', makeUnlockedProblem(found.directory))];
  }
  return drift.map(({ tier, change, problem }) => {
    const isRefused = (tier === 'high' && change !== 'removed') || admission?.failOnDrift === true;
    return toFinding(isRefused ? 'error' : 'warning', 'integrity', problem);
  });
}

/** Only a hint: the default is one less than the cores, which is 1 on a small machine. */
function findOneWorker({ document }: ConfigReading, { service }: Config): Finding[] {
  if (service.maxWorkers > 1) return [];
  const path = ['service', 'max_workers'];
  const message = ONE_WORKER.slice('service.max_workers '.length);
  const hint = 'Set service.max_workers to how many jobs may run at once, for example 4.';
  const problem = makeProblem(document.placeOf(path), keyText(path), message, hint);
  return [toFinding('info', 'content', problem)];
}

function findPermissions({ files, found, document }: ConfigReading): Finding[] {
  const hasSecrets = JSON.stringify(redact(document.value)) !== JSON.stringify(document.value);
  const places = [...files.map(({ path }) => path), found.directory];
  return places.flatMap((path): Finding[] => {
    const mode = modeOf(path);
    const isDirectory = path === found.directory;
    const isPrivate = !isDirectory && (hasSecrets || isSecretFile(path, files));
    const who = (mode & 0o022) !== 0 ? 'changed' : 'read';
    if ((mode & 0o022) === 0 && !(isPrivate && (mode & 0o077) !== 0)) return [];
    const message = `can be ${who} by other users of this machine`;
    const fix = `Run \`chmod ${isDirectory ? 'go-w' : 'go='} ${path}\`.`;
    return [toFinding('warning', 'permissions', makeProblem(path, '', message, fix))];
  });
}

function isSecretFile(path: string, files: ConfigReading['files']): boolean {
  const isHigh = files.some((file) => file.path === path && file.tier === 'high');
  return isHigh || /(^|\/)[^/]*\.env[^/]*$/.test(path);
}

function findExposure({ document }: ConfigReading, { api, webhooks, service }: Config): Finding[] {
  const findings: Finding[] = [];
  const warn = (path: KeyPath, message: string, hint: string): void => {
    const problem = makeProblem(document.placeOf(path), keyText(path), message, hint);
    findings.push(toFinding('warning', 'security', problem));
  };
  for (const [key, listener] of Object.entries({ api, webhooks })) {
    if (!listener.enabled || isLoopback(listener)) continue;
    const hint = 'Listen on 127.0.0.1, behind a proxy with TLS.';
    warn([key, 'listen'], 'is reachable from other machines, over HTTP without TLS', hint);
  }
  if (api.allowedOrigins.includes('*')) {
    const hint = 'List the origins of the pages that may call the API.';
    warn(['api', 'allowed_origins'], 'allows every web page to call the API', hint);
  }
  for (const path of listTokens(document.value)) {
    const written = valueAt(document.value, path);
    if (typeof written !== 'string' || written.includes('${')) continue;
    if (written.length >= TOKEN_CHARS_MIN) continue;
    warn(
      path,
      `is shorter than ${TOKEN_CHARS_MIN} characters`,
      'Generate one with `openssl rand -hex 24`.',
    );
  }
  if (service.tickIntervalMs < 1000) {
    const hint = 'Use one second or more to limit the load on the database.';
    warn(['service', 'tick_interval'], 'is shorter than a second', hint);
  }
  return findings;
}

function listTokens(value: unknown): KeyPath[] {
  const inline = valueAt(value, ['api', 'auth', 'tokens']);
  const named = isObject(value) ? value['tokens'] : undefined;
  return [
    ['api', 'auth', 'api_key'],
    ...(Array.isArray(inline) ? inline : []).map((_, index) => [
      'api',
      'auth',
      'tokens',
      index,
      'token',
    ]),
    ...(Array.isArray(named) ? named : []).map((_, index) => ['tokens', index, 'key']),
  ];
}

function isLoopback({ host }: Pick<ApiConfig, 'host'>): boolean {
  if (isIP(host) === 0) return host === 'localhost';
  return host === '::1' || host.startsWith('127.');
}

function findState({ state }: Config): Finding[] {
  if ((modeOf(state.dir) & 0o077) === 0) return [];
  const fix = `Run \`chmod 700 ${state.dir}\`.`;
  const problem = makeProblem(state.dir, 'state', 'can be accessed by other users', fix);
  return [toFinding('warning', 'state', problem)];
}

/** Returns 0 for a missing file. */
function modeOf(path: string): number {
  return (statSync(path, { throwIfNoEntry: false })?.mode ?? 0) & 0o777;
}
